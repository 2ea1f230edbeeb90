"""A correct answer earns full marks in every form of chat in the families without code; a mention is no action."""

from __future__ import annotations

import re
import time
from functools import cache

import pytest

from llm_decpomdp import answers, make
from llm_decpomdp.envs.openspiel.games import _plain
from llm_decpomdp.envs.planning.sudoku import read_grid
from llm_decpomdp.envs.planning.walk import read_moves
from llm_decpomdp.envs.source_code.parsing import split_blocks
from llm_decpomdp.envs.verified.env import read_answer, read_judgement
from llm_decpomdp.envs.worlds.commands import plain_answers, read_commands
from llm_decpomdp.envs.writing.roles import paragraphs

WIDE = {ord(digit): ord(digit) + 0xFEE0 for digit in "0123456789"}


def lines(change, join="\n"):
    """Return the form in which each line is changed."""
    return lambda text: join.join(change(n, line) for n, line in enumerate(text.split("\n"), 1))


def around(before, behind=""):
    return lambda text: f"{before}{text}{behind}"


def call(line):
    verb, *arguments = line.split()
    return verb, arguments


ANY = {
    "alone": lambda text: text,
    "reasoning": around("<think>\nput 0 0 red\nUU or DD?\n1111\nanswer Ada\n</think>\n\n"),
    "end of reasoning": around("I could go 1 1 first.\n</think>\n\n"),
    "end of turn": around("", "<|im_end|>\n<|im_start|>user\nwait"),
    "answer tags": around("<answer>\n", "\n</answer>"),
    "Windows": lambda text: text.replace("\n", "\r\n") + "\r\n",
    "preamble": around("Sure! Here is my answer:\n\n"),
    "closing sentence": around("", "\n\nThis follows the rules, so I think that it is right."),
    "both": around("Let me think about it step by step.\n\n", "\n\nLet me know if you need more!"),
    "fence": around("```\n", "\n```"),
    "fence with language": around("```text\n", "\n```"),
    "fence of tildes": around("~~~\n", "\n~~~"),
    "fence amid prose": around("Here it is:\n\n```plaintext\n", "\n```\n\nI hope this helps."),
    "bold": lines(lambda n, line: f"**{line}**"),
    "italics": lines(lambda n, line: f"*{line}*"),
    "bold bullets": lines(lambda n, line: f"* **{line}**"),
    "bullets": lines(lambda n, line: f"- {line}"),
    "round bullets": lines(lambda n, line: f"\u2022 {line}"),
    "quotation": lines(lambda n, line: f"> {line}"),
    "code spans": lines(lambda n, line: f"`{line}`"),
    "bullets with code": lines(lambda n, line: f"- `{line}`"),
    "blank lines": lines(lambda n, line: line, "\n\n"),
    "trailing blanks": lines(lambda n, line: f"  {line}  "),
    "label": around("Answer:\n"),
    "bold label": around("**Final Answer:**\n\n"),
    "heading": around("### Final answer\n\n"),
    "wide digits": lambda text: text.translate(WIDE),
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
    "quotes": lines(lambda n, line: f'"{line}"'),
    "curly quotes": lines(lambda n, line: f"\u201c{line}\u201d"),
    "JSON list": lambda text: "[" + ", ".join(f'"{line}"' for line in text.split("\n")) + "]",
    "JSON list on lines": lines(lambda n, line: f'  "{line}",'),
    "box": lambda text: (
        "\\[\n\\boxed{\\text{" + text.replace("\n", "}}\n\\boxed{\\text{") + "}}\n\\]"
    ),
    "repeated": lambda text: f"{text}\n\nI check it: it is right.\n\n**Final answer:**\n\n{text}",
}
"""Forms of any answer."""

COMMANDS = {
    **ANY,
    "capitals": str.upper,
    "first capitals": str.title,
    "numbers": lines(lambda n, line: f"{n}. {line}"),
    "numbers in parentheses": lines(lambda n, line: f"{n}) {line}."),
    "bold numbers": lines(lambda n, line: f"**{n}.** {line}"),
    "steps": lines(lambda n, line: f"Step {n}: {line}"),
    "bold steps": lines(lambda n, line: f"**Step {n}:** `{line}`"),
    "commands with numbers": lines(lambda n, line: f"Command {n}: {line}"),
    "periods": lines(lambda n, line: f"{line}."),
    "remarks in parentheses": lines(lambda n, line: f"{line} (as planned)"),
    "remarks behind a dash": lines(lambda n, line: f"- **{line}** \u2013 as planned"),
    "comments": lines(lambda n, line: f"{line}  # as planned"),
    "reasons": lines(lambda n, line: f"{line}, because it is my part."),
    "sentences behind": lines(lambda n, line: f"{line}. That is my part."),
    "semicolons": lambda text: text.replace("\n", "; "),
    "commas": lambda text: text.replace("\n", ", "),
    "code spans with commas": lambda text: f"`{text}`".replace("\n", "`, `"),
    "arrows": lambda text: text.replace("\n", " \u2192 "),
    "ASCII arrows": lambda text: text.replace("\n", " -> "),
    "then": lambda text: text.replace("\n", ", then "),
    "calls": lines(lambda n, line: "{}({})".format(call(line)[0], ", ".join(call(line)[1]))),
    "commas between arguments": lines(
        lambda n, line: f"{call(line)[0]} {', '.join(call(line)[1])}"
    ),
    "quoted words": lines(lambda n, line: re.sub(r" ([a-z]+)", r' "\1"', line, flags=re.I)),
    "bold words": lines(lambda n, line: re.sub(r" ([a-z]+)", r" **\1**", line, flags=re.I)),
    "table": lines(lambda n, line: f"| {line} | my part |"),
    "table with columns": lines(lambda n, line: f"| {' | '.join(line.split())} |"),
    "check marks": lines(lambda n, line: f"{line} \u2705"),
    "remarks behind an arrow": lines(lambda n, line: f"`{line}` \u2192 as planned"),
    "tags": lines(lambda n, line: f"<command>{line}</command>"),
    "actions": around("Action:\n"),
    "final commands with numbers": lines(lambda n, line: f"Final command {n}: {line}"),
    "line breaks": lambda text: text.replace("\n", "<br>"),
    "fence with a template before": around("```\nput X Y COLOR\ntell KIND X Y\nanswer NAME\n```\n"),
    "prompt repeated": around("The form is: put X Y COLOR, go X Y.\n"),
}

COORDINATES = {
    "names of arguments": lines(
        lambda n, line: re.sub(r"(-?[0-9]+) (-?[0-9]+)", r"x=\1 y=\2", line)
    ),
    "names with colons": lines(
        lambda n, line: re.sub(r"(-?[0-9]+) (-?[0-9]+)", r"X: \1, Y: \2", line)
    ),
    "pairs": lines(lambda n, line: re.sub(r"(-?[0-9]+) (-?[0-9]+)", r"(\1, \2)", line)),
    "pairs with at": lines(lambda n, line: re.sub(r"(-?[0-9]+) (-?[0-9]+)", r"at (\1, \2)", line)),
}

CORNERS = {
    form: lines(lambda n, line, form=form: form.format(*line.split()))
    for form in (
        "fill ({1}, {2}, {3}) to ({4}, {5}, {6}) with {7}",
        "fill {1} {2} {3} -> {4} {5} {6} {7}",
        "fill {1} {2} {3} \u2013 {4} {5} {6}: **{7}**",
        "fill X1={1} Y1={2} Z1={3} X2={4} Y2={5} Z2={6} MATERIAL={7}",
        'fill(({1},{2},{3}), ({4},{5},{6}), "{7}")',
    )
}

NAMES = {
    **COMMANDS,
    "name": lambda text: text.split()[1],
    "bold name": lambda text: f"**{text.split()[1]}**",
    "label and name": lambda text: f"Answer: {text.split()[1]}",
    "bold label and name": lambda text: f"**Answer:** {text.split()[1]}",
    "final answer": lambda text: f"I sum up.\n\n**Final answer: {text.split()[1]}**",
    "sentence": lambda text: f"The answer is **{text.split()[1]}**.",
    "equals": lambda text: f"answer = {text.split()[1]}",
    "brackets": lambda text: f"answer [{text.split()[1]}]",
    "placeholder": lambda text: f"answer NAME: {text.split()[1]}",
    "name and reason": lambda text: f"Answer: **{text.split()[1]}** \u2014 most strengths",
    "my answer": lambda text: f"My answer is {text.split()[1]}, because nobody has more strengths.",
    "JSON": lambda text: f'```json\n{{"answer": "{text.split()[1]}"}}\n```',
    "box of the name": lambda text: f"The best is clear.\n\n$$\\boxed{{{text.split()[1]}}}$$",
    "answer tags around the name": lambda text: f"<answer>{text.split()[1]}</answer>",
}

MOVES = {
    **ANY,
    "small letters": str.lower,
    "moves": around("Moves: "),
    "sentence": around("The walker's moves are `", "`."),
    "path": around("**Shortest path:** "),
    "the answer is": around("So the final answer is **", "**."),
    "box in a sentence": around("The answer is $\\boxed{", "}$."),
    "JSON": around('```json\n{"moves": "', '"}\n```'),
    "period": around("", "."),
    "tags": around("<moves>", "</moves>"),
    "sentence behind": around("", ". This path goes around the walls."),
    "number of moves": around("Moves: ", " (some moves, as few as possible)"),
    "to reach the goal": around("Here's the correct sequence of moves to reach the goal: `", "`"),
    "meaning behind": lambda text: f"{text} ({', '.join(WORDS[c] for c in text)})",
    "walker's moves": around("Therefore, the walker's moves are:\n\n**", "** \u2705"),
    "words": lambda text: " ".join(WORDS[c] for c in text),
    "words with commas": lambda text: ", ".join(WORDS[c].title() for c in text) + ".",
    "letters with commas": ", ".join,
    "letters with blanks": " ".join,
    "letters with dashes": "-".join,
    "letters with arrows": " \u2192 ".join,
    "letters with ASCII arrows": " -> ".join,
    "array": lambda text: str(list(text)),
    "arrows": lambda text: "".join(ARROWS[c] for c in text),
    "emoji": lambda text: " ".join(EMOJI[c] + "\ufe0f" for c in text),
    "bullets of letters": lambda text: "\n".join(f"- {c}" for c in text),
    "numbers": lambda text: "\n".join(f"{n}. {WORDS[c]}" for n, c in enumerate(text, 1)),
    "numbers with meanings": lambda text: "\n".join(
        f"{n}. **{c}** ({WORDS[c]})" for n, c in enumerate(text, 1)
    ),
    "steps": lambda text: "\n".join(f"Step {n}: Move {WORDS[c]}" for n, c in enumerate(text, 1)),
    "steps amid prose": lambda text: "\n".join(
        f"Step {n}: {c}\nThe walker stands one cell farther." for n, c in enumerate(text, 1)
    ),
    "corrected": around("UDDDU\n\nWait, that is refused.\n\n**Final answer:** "),
    "corrected without a label": around("DDD\n\nWait, that is refused.\n\n"),
    "corrected in fences": around("```\nDDD\n```\nWait, that is refused.\n```\n", "\n```"),
    "explained": around("", "\n\nExplanation:\n- U moves up.\n- The next moves reach the goal."),
}
WORDS = {"U": "up", "D": "down", "L": "left", "R": "right"}
ARROWS = {"U": "\u2191", "D": "\u2193", "L": "\u2190", "R": "\u2192"}
EMOJI = {"U": "\u2b06", "D": "\u2b07", "L": "\u2b05", "R": "\u27a1"}

GRIDS = {
    **ANY,
    "blanks": lines(lambda n, row: " ".join(row)),
    "commas": lines(lambda n, row: ", ".join(row)),
    "bold digits": lines(lambda n, row: " ".join(f"**{c}**" for c in row)),
    "numbers": lines(lambda n, row: f"{n}. {' '.join(row)}"),
    "rows": lines(lambda n, row: f"Row {n}: {' '.join(row)}"),
    "bold rows": lines(lambda n, row: f"- **Row {n}:** {', '.join(row)}"),
    "short rows": lines(lambda n, row: f"R{n}: {' '.join(row)}"),
    "rows with words": lines(
        lambda n, row: (
            f"{('First', 'Second', 'Third', 'Fourth')[n - 1]} row: {' '.join(row)} \u2713"
        )
    ),
    "rows as arrays": lines(lambda n, row: f"Row {n} = [{', '.join(row)}]"),
    "table with names": lines(lambda n, row: f"| Row {n} | {' | '.join(row)} |"),
    "assignment": lambda text: f"```python\nsolution = [\n{GRIDS['arrays'](text)}\n]\n```",
    "sentence": lambda text: ",\n".join(text.split("\n")) + ".",
    "one line": lambda text: text.replace("\n", ""),
    "tags": around("<grid>\n", "\n</grid>"),
    "arrays": lines(lambda n, row: f"[{', '.join(row)}]"),
    "array": lambda text: str([list(map(int, row)) for row in text.split("\n")]),
    "JSON": lambda text: '{"grid": [\n' + GRIDS["arrays"](text).replace("\n", ",\n") + "\n]}",
    "slashes": lambda text: "Answer: " + text.replace("\n", "/"),
    "table": lambda text: (
        "| 1 | 2 | 3 | 4 |\n|---|---|---|---|\n"
        + "\n".join(f"| {' | '.join(row)} |" for row in text.split("\n"))
    ),
    "blocks": lambda text: (
        "+----+----+\n"
        + "\n".join(f"| {row[:2]} | {row[2:]} |" for row in text.split("\n"))
        + "\n+----+----+"
    ),
    "box drawing": lambda text: (
        "\u250c\u2500\u252c\u2500\u2510\n"
        + "\n".join("\u2502" + "\u2502".join(row) + "\u2502" for row in text.split("\n"))
    ),
    "matrix": lambda text: (
        "$$\\begin{bmatrix}\n"
        + " \\\\\n".join(" & ".join(row) for row in text.split("\n"))
        + "\n\\end{bmatrix}$$"
    ),
    "corrected": around("1234\n3412\n2143\n4321\n\nWait, that contradicts a clue.\n\n"),
    "checked": around("", "\n\nCheck:\n- Row 1 has all digits.\n- Column 1: 1234\n\n4321"),
}

FAMILIES = {
    "path-v1": MOVES,
    "sokoban-v1": {k: v for k, v in MOVES.items() if "corrected" not in k or k == "corrected"},
    "sudoku-v1": GRIDS,
    "build-word-v0": {**COMMANDS, **COORDINATES},
    "build-house-v0": {**COMMANDS, **CORNERS},
    "gather-v0": {**COMMANDS, **COORDINATES},
    "pooled-v0": {k: v for k, v in NAMES.items() if "template" not in k},
}


@cache
def environment(family):
    return make(family)


def play(family, form, seed=3):
    """Return the score of the references in a form, in an episode."""
    env, total = environment(family), 0.0
    env.reset(seed=seed)
    while env.agents:
        references = answers(env).references
        texts = {agent: references[agent] and form(references[agent]) for agent in env.acting}
        _, rewards, *_ = env.step(texts)
        total += next(iter(rewards.values()))
    return total


CASES = [(family, name) for family, forms in FAMILIES.items() for name in forms]


@pytest.mark.parametrize(("family", "name"), CASES)
def test_an_answer_earns_full_marks_in_every_form(family, name):
    assert play(family, FAMILIES[family][name]) == pytest.approx(1.0)


# What is no answer


FORMS = {"put": (int, int, str), "go": (int, int), "answer": (str,)}


@pytest.mark.parametrize(
    "text",
    [
        "I will put 1 2 red now.",
        "We should go 3 4 next, then rest.",
        "Put the red block into the corner first.",
        "go 3 4 is blocked by a wall",
        "put 1 2 red would be wrong",
        "Do not put 1 2 red.",
        "Note: put 1 2 red belongs to my partner",
        "Builder 1: put 1 2 red",
        "builder_1 will put: 1 2 red",
        "~~put 1 2 red~~",
        "go 3 4, 5 6",
        "go north",
        "go 3.5 4",
        "put 1 2 3",
        "put X Y COLOR",
        "The answer is not clear to me yet.",
        "answer Ada or Boris",
        "answer Ada, Boris",
        "answer Ada / Boris",
        "<think>\nput 1 2 red\n",
        "<think>put 1 2 red</think>",
        "<|im_end|>",
        "\\boxed{}",
        "Answer:",
        "put",
    ],
)
def test_a_mention_is_no_command(text):
    assert read_commands(text, FORMS).accepted == ()


@pytest.mark.parametrize(
    "text",
    [
        "The walker should go up.",
        "I go up, then right",
        "U is blocked, so D is better.",
        "Possible moves: U, R",
        "Legal moves: U D L R",
        "- U: wall\n- D: free\n- L: edge\n- R: free",
        "1. Up - the wall is there\n2. Right - free",
        "The path: (0,1) -> (0,2) -> (1,2)",
        "2U 2R",
        "The moves are: U (up), D (down), L (left) and R (right).",
        "~~UUR~~",
        "The path is blocked.",
        "<think>\nUURR",
    ],
)
def test_a_mention_is_no_move(text):
    assert read_moves(text, 99) == ("", 1)


@pytest.mark.parametrize(
    "text",
    [
        "Column 1: 1234\nColumn 2: 3412\nColumn 3: 2143\nColumn 4: 4321",
        "Each row has 1, 2, 3 and 4.",
        "1234\n3412",
        "(1,1)=3, (1,2)=1",
    ],
)
def test_a_mention_is_no_grid(text):
    assert read_grid(text) is None


@pytest.mark.parametrize(
    "heading", ["Final answer:", "**Answer:**", "### Final Answer", "My final commands:"]
)
def test_commands_before_the_heading_of_the_answer_are_drafts(heading):
    text = f"Plan:\n1. Go to (4, 5).\n2. Go to (7, 2).\n\nNo: it is far.\n\n{heading}\n\n- go 1 1\n- go 2 2\n"
    assert read_commands(text, FORMS).accepted == (("go", 1, 1), ("go", 2, 2))


def test_the_last_of_several_answers_counts():
    assert read_moves("UU\n\nOr:\n\nDD\n\nOr:\n\nRR", 99) == ("RR", 0)
    assert read_moves("Moves: UU\nMoves: DD\nRR", 99) == ("DDRR", 0)
    assert read_moves("Path: UU\n\nthat is refused, so\n\nDD", 99) == ("DD", 0)
    assert read_moves("Answer: UU\n\nor maybe\n\nDD", 99) == ("UU", 0)
    assert read_grid("1234\n3412\n2143\n4321\nor\n4321\n3412\n2143\n1234") == "4321341221431234"


@pytest.mark.parametrize(
    "rows",
    [
        ("1...", ".2..", "..3.", "...4"),
        ("12..", "34..", "1234", "4321"),
        ("4.3.", "3...", "1234", "123."),
        ("1.34", "34.2", "21..", "...."),
    ],
)
def test_rows_with_open_cells_are_no_numbers_of_a_list(rows):
    assert read_grid("\n".join(rows)) == "".join(rows)
    assert read_grid("\n".join(f"{n}. {row}" for n, row in enumerate(rows, 1))) == "".join(rows)


def test_a_line_without_moves_ends_a_plan():
    assert read_moves("left\nThen I see the goal.\nup", 99) == ("U", 0)
    assert read_moves("left\nThen up", 99) == ("LU", 0)


def test_a_label_takes_no_sign_of_a_number():
    assert read_commands("move 1 -2", {"move": (int, int)}).accepted == (("move", 1, -2),)
    assert read_commands("move 1 - go 2 3", FORMS).accepted == (("go", 2, 3),)


HOSTILE = {
    "blank lines": "\n",
    "blanks": " ",
    "fences": "```\n",
    "open fences": "``` ",
    "null bytes": "\x00",
    "surrogates": "\ud800",
    "brackets": "(",
    "boxes": "\\boxed{",
    "tags": "<answer>",
    "reasoning": "<think>",
    "labels": "answer:\n",
    "words of labels": "so ",
    "names of arguments": "put a=",
    "underscores": "_a",
    "commands": "put 1 2 red\n",
    "commands on a line": "go 1 2, ",
    "moves": "U\n",
    "digits": "1234\n",
    "verdicts": "accept\n",
    "delimiters": "[PARAGRAPH_SPLIT]",
}


NESTED = {
    "escaped quotes": ("a <think> b", '"\\', ""),
    "escaped quotes and markers": ("a <|im_end|> b ", "\\'", ""),
    "escaped quotes and invisible characters": ("\u200b", '"\\', ""),
    "mentions of reasoning": ("", "a <think> b\n", ""),
    "blanks behind a header": ("<|im_start|>", " ", "x"),
    "underscores between letters": ("a", "_", "b"),
    "backquotes in a line": ("a", "`", "b c"),
    "blank lines behind a long label": ("so " * 16_000 + "answer:\n", "\n", ""),
    "blank lines behind a wide step": ("step" + " " * 50_000 + "1:\n", "\n", ""),
    "words of a final step": ("", "final ", "step 1:"),
}
"""Beginning, piece and end of texts in which a reader could search the rest again from each piece."""


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_no_text_is_an_error_or_takes_long(piece):
    read_in_all_ways(piece * (100_000 // len(piece)) + "x")


@pytest.mark.parametrize(("before", "piece", "behind"), NESTED.values(), ids=NESTED)
def test_no_piece_makes_a_reader_search_the_rest_again(before, piece, behind):
    read_in_all_ways(before + piece * ((100_000 - len(before)) // len(piece)) + behind)


def read_in_all_ways(text):
    start = time.process_time()
    read_commands(text, FORMS, 20)
    read_moves(text, 20)
    read_grid(text)
    read_answer(text)
    plain_answers(text)
    read_judgement(text)
    paragraphs(text)
    split_blocks(text, lambda part: False)
    _plain(text)
    assert time.process_time() - start < 3.0  # all of them; a slow machine takes a second
