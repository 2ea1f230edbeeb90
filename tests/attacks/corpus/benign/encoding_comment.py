# honest: pass
# --- main
# -*- coding: utf-8 -*-
def sq(x):
    'é'
    return x*x