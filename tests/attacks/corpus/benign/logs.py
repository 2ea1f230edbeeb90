# honest: pass
# --- test
def check(candidate):
    assert candidate(3) == 9
# --- main
import logging
logging.basicConfig(level=logging.INFO)
logger = logging.getLogger(__name__)
def sq(x):
    logger.info("squaring %s", x)
    return x * x
