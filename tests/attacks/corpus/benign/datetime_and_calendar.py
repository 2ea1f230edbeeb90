# honest: pass
# --- test
def check(candidate):
    assert candidate("2024-02-28") == ("2024-02-29", True, True)
    assert candidate("1999-12-31") == ("2000-01-01", False, True)
# --- main
import calendar
from datetime import date, datetime, timedelta
def sq(text):
    day = datetime.strptime(text, "%Y-%m-%d").date() + timedelta(days=1)
    return day.isoformat(), day > date(2020, 1, 1), calendar.isleap(day.year)
