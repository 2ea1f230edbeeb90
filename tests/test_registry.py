"""Environment ids."""

from __future__ import annotations

import sys
from pathlib import Path

import pettingzoo
import pytest

import llm_decpomdp
from llm_decpomdp import DecPOMDPEnv, registry
from llm_decpomdp.benchmarks import load_config
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.wrappers.turn_order import set_order
from tests.conftest import word_env
from tests.foreign_envs import Rendezvous
from tests.wrapper_cases import Paying

CODING = "llm_decpomdp.envs.coding.env:coophumaneval"


@pytest.fixture
def own_registry(monkeypatch):
    """Ids that a test adds are gone after it."""
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))


@pytest.fixture
def here(own_registry, monkeypatch, tmp_path):
    """The current folder, which Python does not look into, as where a console script is started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield tmp_path
    for name in ("mine", "neighbour", "families", "families.words"):
        sys.modules.pop(name, None)


def module(path: Path, id: str) -> None:
    """Write a module that registers an environment, and builds it with another one beside it."""
    path.with_name("neighbour.py").write_text("TURNS = 4\n")
    path.write_text(
        "import llm_decpomdp\n"
        f"llm_decpomdp.register({id!r}, f'{{__name__}}:build')\n"
        "def build(offset=0.0):\n"
        "    import neighbour\n"
        "    return llm_decpomdp.make('coophumaneval-v0', source='bundled', num_turns=neighbour.TURNS)\n"
    )


def test_make_builds_and_marks_the_environment():
    env = llm_decpomdp.make("coophumaneval-v0", source="bundled", num_turns=3)
    assert isinstance(env, DecPOMDPEnv)
    assert env.num_turns == 3
    assert env.metadata["id"] == "coophumaneval-v0"
    assert env.metadata["kwargs"] == {"source": "bundled", "num_turns": 3}


def foreign():
    """An environment of another library."""
    return Rendezvous()


def test_commands_need_the_parts_of_an_environment(own_registry):
    registry.register("rendezvous-v0", f"{__name__}:foreign")
    assert isinstance(llm_decpomdp.make("rendezvous-v0"), Rendezvous)
    with pytest.raises(TypeError, match="rendezvous-v0 builds a Rendezvous"):
        registry.make_family("rendezvous-v0")
    with pytest.raises(ConfigError, match="rendezvous-v0 builds a Rendezvous"):
        load_config(None, ["env.id=rendezvous-v0"])


def wrapped():
    """An environment whose reward a wrapper changes."""
    return Paying(llm_decpomdp.make("coophumaneval-v0", source="bundled"))


def test_one_policy_for_all_is_refused_where_it_would_lose_a_wrapper_or_finds_no_parts(
    own_registry,
):
    for function in ("wrapped", "foreign"):
        registry.register(f"{function}-v0", f"{__name__}:{function}")
        with pytest.raises(TypeError, match="without wrappers, got a "):
            llm_decpomdp.make(f"{function}-v0", centralized=True)


def ordered(num_turns=1):
    """An environment whose function puts a turn order around it."""
    arguments = {"source": "bundled", "num_turns": num_turns, "order": ["aux_0", "main_0"]}
    return Paying(llm_decpomdp.make("coophumaneval-v0", **arguments))


def test_what_the_function_of_an_id_does_itself_is_no_argument_of_it(own_registry):
    registry.register("ordered-v0", f"{__name__}:ordered")
    env = llm_decpomdp.make("ordered-v0", num_turns=2)
    assert env.num_turns == 4 and env.spec_kwargs == env.metadata["kwargs"] == {"num_turns": 2}
    again = llm_decpomdp.make(env.spec_id, **env.spec_kwargs)
    assert again.reset(seed=0) == env.reset(seed=0)


def test_wrappers_that_are_applied_in_python_are_recorded_as_those_of_make(own_registry):
    order, arguments = ["aux_0", "main_0"], {"source": "bundled", "num_turns": 2}
    env = set_order(llm_decpomdp.make("coophumaneval-v0", **arguments), order)
    made = llm_decpomdp.make("coophumaneval-v0", **arguments, order=order)
    assert env.spec_kwargs == made.spec_kwargs == {**arguments, "order": order}
    assert made.metadata["kwargs"] == made.spec_kwargs


def test_registered_defaults_apply_and_give_way(own_registry):
    registry.register("three-turns-v0", CODING, num_turns=3, source="bundled")
    assert llm_decpomdp.make("three-turns-v0").num_turns == 3
    env = llm_decpomdp.make("three-turns-v0", num_turns=1)
    assert env.spec_kwargs == {"num_turns": 1, "source": "bundled"}
    assert llm_decpomdp.spec("three-turns-v0").kwargs == {"num_turns": 3, "source": "bundled"}


@pytest.mark.skipif(
    not hasattr(pettingzoo, "make"), reason="PettingZoo has no registry before 1.27"
)
def test_pettingzoo_makes_the_same_environment_which_knows_what_it_is(own_registry):
    registry.register("five-turns-v0", CODING, num_turns=5)
    env = pettingzoo.make("parallel", "llm_decpomdp/five-turns-v0", source="bundled")
    assert isinstance(env, DecPOMDPEnv)
    assert env.num_turns == 5 and env.metadata["id"] == "five-turns-v0"
    assert env.metadata["kwargs"] == {"num_turns": 5, "source": "bundled"}


def test_a_game_of_a_collection_is_an_argument_of_its_builder(monkeypatch):
    monkeypatch.setattr(registry, "_collections", {})
    registry.register_collection("words", f"{__name__}:word_game")
    env = llm_decpomdp.make("words:spell(letters=3):x", num_turns=2)
    assert (env.name, env.num_turns) == ("spell(letters=3):x", 2)
    assert env.metadata["id"] == "words:spell(letters=3):x"
    assert env.metadata["kwargs"] == {"game": "spell(letters=3):x", "num_turns": 2}
    with pytest.raises(TypeError, match="words:spell: unknown argument 'num_turn'; did you mean"):
        llm_decpomdp.make("words:spell", num_turn=2)


def word_game(game, num_turns=1):
    """Build an environment of a collection."""
    env = word_env(num_turns=num_turns)
    env.name = game
    return env


def test_an_unknown_id_or_argument_names_the_nearest():
    for call in (llm_decpomdp.make, llm_decpomdp.spec):
        with pytest.raises(KeyError, match="did you mean 'coophumaneval-v0'"):
            call("coop-humaneval-v0")
    text = "coophumaneval-v0: unknown argument 'num_turn'; did you mean"
    with pytest.raises(TypeError, match=text):
        llm_decpomdp.make("coophumaneval-v0", num_turn=1)


@pytest.mark.parametrize("id", ["nover", "Upper-v0", "x-v", "-v0", "a b-v0", "x-v0.1", ""])
def test_ids_of_the_wrong_form_are_refused(own_registry, id):
    with pytest.raises(ValueError, match="id must look like"):
        registry.register(id, CODING)


def test_bad_entries_are_refused(own_registry):
    with pytest.raises(ValueError, match="entry_point must look like"):
        registry.register("new-v0", "just_a_module")
    with pytest.raises(ValueError, match="JSON"):
        registry.register("new-v0", CODING, split=object())
    with pytest.raises(ValueError, match="already registered"):
        registry.register("coophumaneval-v0", "elsewhere:build")
    assert "new-v0" not in registry.registered_ids()


def test_registering_the_same_twice_is_harmless(own_registry):
    before = registry.registered_ids()
    registry.register("coophumaneval-v0", CODING)
    assert registry.registered_ids() == before == sorted(before)


def test_pprint_registry_lists_ids_and_entry_points(capsys):
    text = llm_decpomdp.pprint_registry(disable_print=True)
    assert capsys.readouterr().out == ""
    llm_decpomdp.pprint_registry()
    assert capsys.readouterr().out == text + "\n"
    assert "coophumaneval-v0" in text and CODING in text


def test_a_module_of_the_current_folder_registers_its_environment_first(here) -> None:
    module(here / "mine.py", "mine-v0")
    env = llm_decpomdp.make("mine:mine-v0")
    assert env.num_turns == 4
    assert env.metadata["id"] == env.spec_id == "mine:mine-v0"  # as any process can make it again
    takes = [registry.accepts_argument("mine:mine-v0", name) for name in ("offset", "split")]
    assert takes == [True, False]
    assert llm_decpomdp.spec("mine:mine-v0") == llm_decpomdp.spec("mine-v0")
    assert llm_decpomdp.spec("mine-v0").entry_point == "mine:build"


def test_a_module_may_lie_in_a_package_and_any_id_goes_with_it(here) -> None:
    llm_decpomdp.spec("mbpp-v0")
    assert str(here) not in sys.path  # nothing is looked up there for ids without a module
    package = here / "families"
    package.mkdir()
    module(package / "words.py", "words-v0")
    assert llm_decpomdp.spec("families.words:words-v0").id == "words-v0"
    assert llm_decpomdp.spec("families.words:mbpp-v0").id == "mbpp-v0"


def test_a_file_of_the_current_folder_hides_no_installed_module(here) -> None:
    module(here / "colorsys.py", "colours-v0")
    with pytest.raises(KeyError, match=r"the module 'colorsys' \(.*colorsys.py\) registers no env"):
        llm_decpomdp.spec("colorsys:colours-v0")


@pytest.mark.filterwarnings(
    "ignore:Overriding environment"
)  # PettingZoo's registry forgets nothing
@pytest.mark.parametrize(
    ("id", "error", "message"),
    [
        ("absent:x-v0", ModuleNotFoundError, "'absent:x-v0': there is no module 'absent', neither"),
        ("absent.deeper:x-v0", ModuleNotFoundError, "there is no module 'absent.deeper'"),
        ("mine.py:mine-v0", ModuleNotFoundError, "no module 'mine.py'.* as `import` does"),
        ("./mine:mine-v0", ModuleNotFoundError, "no module './mine'"),
        (":mine-v0", ModuleNotFoundError, "no module ''"),
        (
            "mine:mime-v0",
            KeyError,
            "the module 'mine' .*mine.py. registers no .*did you mean 'mine-v0'",
        ),
        ("mime-v0", KeyError, "unknown environment 'mime-v0'.* 'module:mime-v0'"),
        ("lacks:x-v0", ImportError, "importing 'lacks' failed with .*No module named 'gone'"),
        (
            "broken:x-v0",
            ImportError,
            "failed with NameError: name 'y' .*`python -c 'import broken'`",
        ),
    ],
)
def test_a_wrong_id_with_a_module_says_what_is_missing(here, id, error, message) -> None:
    module(here / "mine.py", "mine-v0")
    (here / "lacks.py").write_text("import gone\n")
    (here / "broken.py").write_text("x = y\n")
    for call in (llm_decpomdp.make, llm_decpomdp.spec, registry.description):
        with pytest.raises(error, match=message):
            call(id)


def test_an_error_of_an_own_function_names_its_file_its_line_and_the_arguments(here):
    (here / "mine.py").write_text(
        "import llm_decpomdp\n"
        "llm_decpomdp.register('failing-v0', f'{__name__}:build')\n"
        "llm_decpomdp.register('absent-v0', f'{__name__}:absent')\n"
        "llm_decpomdp.register('nothing-v0', f'{__name__}:nothing')\n"
        "def build(split='train', source=None):\n"
        "    if source: return open(source)\n"
        "    return {'train': 1}[split]\n"
        "def nothing(): return None\n"
    )
    with pytest.raises(ValueError, match=r"split.: 'dev'}: KeyError: 'dev' \(.*mine.py, line 7\)"):
        llm_decpomdp.make("mine:failing-v0", split="dev")
    with pytest.raises(ValueError, match=r"FileNotFoundError: .*'a.jsonl' \(.*mine.py, line 6\)"):
        llm_decpomdp.make("mine:failing-v0", source="a.jsonl")
    with pytest.raises(ImportError, match="'mine:absent-v0' is registered to 'mine:absent'"):
        llm_decpomdp.make("mine:absent-v0")
    with pytest.raises(TypeError, match="'mine:nothing-v0' must return an environment, got None"):
        llm_decpomdp.make("mine:nothing-v0")


@pytest.mark.parametrize("id", [3, None])
def test_an_id_that_is_no_text_is_refused(id):
    with pytest.raises(TypeError, match=f"id of an environment is a text.*got {id}"):
        llm_decpomdp.make(id)


def test_a_reward_that_is_no_name_is_refused():
    with pytest.raises(TypeError, match="reward must be a text such as 'module:NAME', got 3"):
        llm_decpomdp.make("coophumaneval-v0", source="bundled", reward=3)
