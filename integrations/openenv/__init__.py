"""OpenEnv: a server of an environment, and a client that is an environment."""

from typing import TYPE_CHECKING

from llm_decpomdp.utils.extras import lazy_names

if TYPE_CHECKING:
    from llm_decpomdp.integrations.openenv.client import client as client
    from llm_decpomdp.integrations.openenv.server import app as app
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
