"""The attacks on the host: what surrounds the process that runs the program."""

from __future__ import annotations

from tests.attacks.damage import DAMAGE
from tests.attacks.entry import Attack
from tests.attacks.escape import ESCAPE
from tests.attacks.network import NETWORK
from tests.attacks.spying import SPYING

HOST: tuple[Attack, ...] = (*ESCAPE, *DAMAGE, *SPYING, *NETWORK)
