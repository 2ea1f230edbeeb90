# honest: pass
# --- test
def check(candidate):
    assert candidate({"a": [1, None]}) == (True, "937f1a67", "aGk=", b"\x00\x00\x00\x09")
# --- main
import base64
import hashlib
import json
import struct
def sq(data):
    text = json.dumps(data, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return json.loads(text) == data, digest, base64.b64encode(b"hi").decode(), struct.pack(">I", 9)
