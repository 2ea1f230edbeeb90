"""The data of the writing families: the bundled texts, files in the hub's format, and rows that are refused."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from pathlib import Path

import pytest

from llm_decpomdp import answers, make
from llm_decpomdp.envs.writing.tasks import MAX_POST_LENGTH, TOKEN
from llm_decpomdp.envs.writing.text_measures import STOP_WORDS, words
from tests.envs.own_rows import write_json, write_lines, write_parquet

SPLITS = {"tldr": ("train", "test"), "arxiv": ("train", "val")}


def rows(genre):
    env = make(f"{genre}-v1", source="bundled", split="all")
    return env.tasks.tasks


def post(**fields):
    return {
        "prompt": "My cat sleeps on the oven since Monday.",
        "completion": "Cat on oven.",
        **fields,
    }


def abstract(tokens=150, **fields):
    text = " ".join(f"word{number}" for number in range(tokens))
    return {"article_id": "a/1", "abstract_text": text, "token_count": tokens, **fields}


def load(tmp_path, genre, *given, name="rows.jsonl", **options):
    others = {".json": write_json, ".parquet": write_parquet}
    write = others.get(Path(name).suffix, partial(write_lines, ensure_ascii=True))
    path = write(tmp_path / name, given)
    return make(f"{genre}-v1", source=str(path), **options)


# The bundled texts


@pytest.mark.parametrize("genre", SPLITS)
def test_there_are_sixty_sources_with_two_references_each(genre):
    tasks = rows(genre)
    assert len(tasks) >= 60
    assert all(len(task.references) == 2 for task in tasks)
    parts = [make(f"{genre}-v1", source="bundled", split=split).tasks for split in SPLITS[genre]]
    assert sum(map(len, parts)) == len(tasks)
    assert not set(parts[0].positions) & set(parts[1].positions)
    assert parts[0].stand_in


@pytest.mark.parametrize("genre", SPLITS)
def test_no_two_sources_are_alike(genre):
    content = [set(words(task.prompt)) - STOP_WORDS for task in rows(genre)]
    shares = [len(one & other) / len(one | other) for one, other in combinations(content, 2)]
    assert max(shares) < 0.25


def test_posts_have_the_form_of_the_hubs_and_80_to_250_words():
    for task in rows("tldr"):
        head, _, rest = task.prompt.partition("\n\nTITLE: ")
        title, _, text = rest.partition("\n\nPOST: ")
        assert head.startswith("SUBREDDIT: r/") and title and text.endswith("\n\nTL;DR:")
        assert 80 <= len(text.split()) <= 250, task.task_id


def test_abstracts_have_100_to_300_tokens_as_their_rows_say():
    env = make("arxiv-v1", source="bundled", split="all")
    path = env.tasks
    assert not path.excluded
    for task in path.tasks:
        assert 100 <= len(TOKEN.findall(task.prompt)) <= 300


def test_every_reference_has_the_right_number_of_tokens_for_both_rewards():
    for genre in SPLITS:
        for version in ("v0", "v1"):
            env = make(f"{genre}-{version}", source="bundled", split="all")
            for task in env.tasks.tasks:
                verdict = env.reward(task, task.references)
                assert verdict.components["structure"] == 0.5, task.task_id
                assert verdict.components["overlap"] > 0, task.task_id


# Files


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.parquet"])
def test_a_file_in_the_format_of_the_hub_is_read(tmp_path, name):
    env = load(tmp_path, "tldr", post(), post(prompt="My dog barks at 3."), name=name)
    assert len(env.tasks) == 2 and not env.metadata["data"]["stand_in"]
    env.reset(options={"task_id": env.tasks.tasks[0].task_id})
    assert answers(env).reference("summarizer_0") == "Cat on oven."
    with pytest.raises(LookupError, match="has no reference for agent 'elaborator_0'"):
        answers(env).reference("elaborator_0")
    env = load(tmp_path, "arxiv", abstract(), name=name)
    env.reset(seed=0)
    assert env.task.task_id == "arxiv/a/1"
    with pytest.raises(LookupError, match="has no reference for agent 'method_0'"):
        answers(env).reference("method_0")


def test_an_agent_alone_has_a_reference_only_if_the_data_has_both_texts(tmp_path):
    env = load(tmp_path, "tldr", post(), num_agents=1)
    env.reset(seed=0)
    with pytest.raises(LookupError, match="no reference for agent 'writer_0'"):
        answers(env).reference("writer_0")
    env = load(tmp_path, "tldr", post(elaboration="It sleeps."), num_agents=1)
    env.reset(seed=0)
    assert answers(env).reference("writer_0") == "Cat on oven.\n[PARAGRAPH_SPLIT]\nIt sleeps."


def test_rows_without_an_id_get_one_that_tells_splits_apart(tmp_path):
    one = load(tmp_path, "tldr", post(), name="one.jsonl").tasks.tasks[0]
    other = load(tmp_path, "tldr", post(prompt="Other."), name="other.jsonl").tasks.tasks[0]
    assert one.task_id.startswith("tldr/0-") and one.task_id != other.task_id


def test_a_file_may_hold_several_splits(tmp_path):
    given = [post(split="train"), post(split="test", prompt="B."), post(prompt="C.")]
    assert len(load(tmp_path, "tldr", *given, split="train").tasks) == 2
    assert len(load(tmp_path, "tldr", *given, split="all").tasks) == 3
    assert len(load(tmp_path, "tldr", *given, split="all[1:]").tasks) == 2


def test_an_unknown_split_is_an_error():
    with pytest.raises(ValueError, match="unknown split 'val'"):
        make("tldr-v1", split="val")
    with pytest.raises(ValueError, match="unknown split 'test'"):
        make("arxiv-v1", split="test")


# Refusals


def test_empty_and_over_long_posts_are_refused_with_the_reason(tmp_path):
    long = "word " * (MAX_POST_LENGTH // 5 + 1)
    given = [post(), post(prompt=" \n", task_id="e"), post(prompt=None, task_id="n")]
    given.append(post(prompt=long, task_id="l"))
    env = load(tmp_path, "tldr", *given)
    assert len(env.tasks) == 1
    excluded = env.metadata["data"]["excluded"]
    assert excluded["tldr/e"] == excluded["tldr/n"] == "field 'prompt' is empty"
    assert excluded["tldr/l"] == "field 'prompt' has 20005 characters; at most 20000"


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [(99, "99 tokens; 100 to 300 are read"), (100, None), (300, None), (301, "301 tokens; 100 to 300 are read")],
)  # fmt: skip
@pytest.mark.parametrize("counted", [True, False], ids=["row's count", "our count"])
def test_abstracts_outside_of_the_filter_are_refused(tmp_path, tokens, reason, counted):
    row = abstract(tokens, article_id="x", **({} if counted else {"token_count": None}))
    env = load(tmp_path, "arxiv", abstract(), row)
    assert env.metadata["data"]["excluded"] == ({} if reason is None else {"arxiv/x": reason})


def test_the_rows_own_count_decides(tmp_path):
    env = load(tmp_path, "arxiv", abstract(), abstract(150, article_id="x", token_count=99))
    assert list(env.metadata["data"]["excluded"]) == ["arxiv/x"]


def test_a_file_of_nothing_but_refused_rows_is_an_error(tmp_path):
    env = load(tmp_path, "tldr", post(prompt="", task_id="e"))
    with pytest.raises(ValueError, match=r"every row .* is refused: .*tldr/e.*is empty"):
        env.reset(seed=0)


@pytest.mark.parametrize(
    ("genre", "row", "expected"),
    [
        ("tldr", {"post": "x"}, "line 1: field 'prompt' is missing; the row has 'post'"),
        ("tldr", {"prompt": 5}, "field 'prompt' must be a text, got 5"),
        ("tldr", post(completion=5), "field 'completion' must be a text, got 5"),
        ("arxiv", abstract(token_count="many"), "'token_count' must be a whole number, got 'many'"),
        ("arxiv", {"text": "x"}, "field 'abstract_text' is missing"),
    ],
)
def test_rows_of_another_form_are_errors(tmp_path, genre, row, expected):
    with pytest.raises(ValueError, match=expected):
        load(tmp_path, genre, row).reset(seed=0)


def test_lone_surrogates_in_a_row_do_no_harm(tmp_path):
    env = load(tmp_path, "tldr", post(prompt="My cat \ud800 sleeps."))
    observations, _ = env.reset(seed=0)
    assert "My cat ? sleeps." in observations["summarizer_0"]
    assert len(env.metadata["data"]["fingerprint"]) == 16


def test_a_folder_in_the_format_of_the_hub_is_loaded(tmp_path, monkeypatch):
    from dataclasses import replace

    from llm_decpomdp.envs.writing import env as writing
    from llm_decpomdp.envs.writing.tasks import POSTS, load_texts

    write_lines(tmp_path / "test.jsonl", [post()])
    write_lines(tmp_path / "train.jsonl", [post(prompt="Other.")])
    local = replace(POSTS, hub=str(tmp_path))
    assert [t.prompt for t in load_texts(local, "train", "hub").tasks] == ["Other."]
    assert len(load_texts(local, "all", "hub").tasks) == 2
    assert writing.TLDR_FAMILY.dataset.hub == "trl-lib/tldr"
    assert writing.ARXIV_FAMILY.dataset.hub == "OpenMLRL/arXiv_abstract"
