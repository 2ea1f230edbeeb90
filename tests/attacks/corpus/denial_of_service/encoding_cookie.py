# honest: any
# --- main
# -*- coding: utf-7 -*-
def sq(x):
    return x * x
