"""Recall of evidence, measured through the real daemon on a small conversation of LoCoMo's form."""

import json
import subprocess
import sys
from pathlib import Path

from tests.bench.locomo import read
from tests.support.server import ROOT

SAMPLE = {
    "sample_id": "talk",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "My sister keeps bees on the roof of her house."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "Look at this!", "blip_caption": "a red canoe"},
        ],
        "session_2_date_time": "2023-06-09T19:55:00",
        "session_2": [
            {"speaker": "Ben", "dia_id": "D2:1", "text": "I sold the canoe. " + "So it goes. " * 40}
        ],
    },
    "qa": [
        {"question": "Who keeps bees?", "evidence": ["D1:1"], "category": 1},
        {"question": "What did Ben sell?", "evidence": ["D2:01; D:1:2", "D"], "category": 4},
        {"question": "Who is meant by that?", "evidence": ["D9:9"], "category": 3},
        {"question": "Is there more?", "evidence": [], "category": 3},
    ],
}


def test_turns_and_evidence_are_read_as_they_are_meant(tmp_path: Path) -> None:
    file = tmp_path / "sample.json"
    file.write_text(json.dumps(SAMPLE))
    (talk,) = read(file)
    assert [turn.id for turn in talk.turns] == ["D1_1", "D1_2", "D2_1"]
    first, second, long = talk.turns
    assert (first.title, first.body) == ("Ada: My sister keeps bees on the roof of her house.", "")
    assert second.title == "Ben: Look at this! [image: a red canoe]"
    assert second.created_at == "2023-05-08T13:56:01+00:00"
    assert (len(long.title), long.body[:23], long.created_at[:10]) == (
        256,
        "Ben: I sold the canoe. ",
        "2023-06-09",
    )
    assert [turn.source.session for turn in talk.turns] == ["talk/session_1"] * 2 + ["talk/session_2"]
    assert [question.evidence for question in talk.questions] == [{"D1_1"}, {"D2_1", "D1_2"}]
    assert talk.skipped == 2


def test_scenes_of_friendsqa_are_the_sessions_of_a_season(tmp_path: Path) -> None:
    scenes = [
        {
            "title": title,
            "paragraphs": [
                {
                    "utterances:": [{"uid": 0, "speakers": ["Ross", "Rachel"], "utterance": "Hi !"}],
                    "qas": [
                        {"question": "Who is it ?", "answers": [{"utterance_id": 0}, {"utterance_id": 0}]}
                    ],
                }
            ],
        }
        for title in ("s02_e01_c01", "s01_e02_c01", "s01_e01_c01")
    ]
    file = tmp_path / "friends.json"
    file.write_text(json.dumps({"data": scenes, "version": "1"}))
    first, second = read(file)
    assert [turn.source.session for turn in first.turns] == ["s01/session_1", "s01/session_2"]
    assert first.turns[0].title == "Ross and Rachel: Hi !"
    assert [question.evidence for question in first.questions] == [{"D1_0"}, {"D2_0"}]
    assert (second.name, second.held_out) == ("s02", True)


def test_meetings_of_qmsum_are_read_from_lines(tmp_path: Path) -> None:
    meeting = {
        "meeting_transcripts": [{"speaker": "Grad A", "content": f"So {place} ."} for place in range(30)],
        "specific_query_list": [
            {"query": "What did A say?", "relevant_text_span": [["0", "2"], ["5", "5"]]},
            {"query": "Summarise the meeting.", "relevant_text_span": [["0", "29"]]},
        ],
    }
    file = tmp_path / "meetings.jsonl"
    file.write_text(f"{json.dumps(meeting)}\n{json.dumps(meeting)}\n")
    meetings = read(file)
    assert [one.name for one in meetings] == ["meeting-0", "meeting-1"]
    assert len(meetings[0].turns) == 30
    assert [question.evidence for question in meetings[0].questions] == [{"D1_0", "D1_1", "D1_2", "D1_5"}]


def test_a_file_of_realtalk_is_a_conversation(tmp_path: Path) -> None:
    said = {"speaker": "Emi", "clean_text": "Hi!", "dia_id": "D1:1", "blip_caption": None}
    chat = {
        "name": {"speaker_1": "Emi"},
        "session_1": [said, {**said, "dia_id": "D1:2", "blip_caption": "a bar"}],
        "events_session_1": {"agent_a": []},
        "session_1_date_time": "29.12.2023, 22:42:04",
        "qa": [{"question": "Who is it?", "answer": "Emi", "evidence": ["D1:2"], "category": 1}],
    }
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(chat))
    (talk,) = read(file)
    assert [turn.title for turn in talk.turns] == ["Emi: Hi!", "Emi: Hi! [image: a bar]"]
    assert talk.turns[0].created_at == "2023-12-29T22:42:04+00:00"
    assert [question.evidence for question in talk.questions] == [{"D1_2"}]


def test_recall_is_measured_through_the_daemon(tmp_path: Path) -> None:
    file, figures = tmp_path / "sample.json", tmp_path / "figures.json"
    file.write_text(json.dumps([SAMPLE]))
    run = subprocess.run(
        [sys.executable, "-m", "tests.bench.locomo", str(file), "--json", str(figures)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    result = json.loads(figures.read_text())
    told, _, last = run.stdout.rstrip().rpartition("\n")
    assert json.loads(told) == result
    assert json.loads(last) == result["halves"]
    for mode in ("fast", "deep"):  # the first conversation is one that constants are chosen on
        assert (last := result["halves"][mode])["chosen_on"] == 100
        assert (last["held_out"], last["met"]) == (None, False)
    assert (result["questions_used"], result["questions_skipped"], result["turns"]) == (2, 2, 3)
    for mode in ("fast", "deep"):
        assert result[mode]["recall_at_10"] == 100
        assert result[mode]["by_category"] == {"1": 100, "4": 100}
        assert 0 < result[mode]["p50_ms"] <= result[mode]["p95_ms"]
