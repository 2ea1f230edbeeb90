# honest: pass
# --- main
import math  
@1 TIMES '\x0c'@
def sq(x):   
    return x*x   


