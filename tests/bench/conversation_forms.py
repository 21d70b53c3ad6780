"""Conversations of other sets in the form of LoCoMo's: those of FriendsQA, QMSum and REALTALK."""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

MOST_EVIDENCE = 10
"""Questions with more turns as evidence (whole discussions in QMSum) cannot have all of it among ten hits."""

Sample = dict[str, Any]


def read_samples(path: Path) -> list[Sample]:
    """The conversations of a file (JSON, or a JSON object a line) in LoCoMo's form.

    FriendsQA: those of a season are one conversation, with a session a scene. QMSum: a meeting is one
    conversation of one session; of its questions the specific ones with at most MOST_EVIDENCE turns of
    evidence. All of their questions have the category 1. REALTALK: a file is one conversation.
    """
    text = path.read_text(encoding="utf-8")
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        data = [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(data, dict) and "data" in data:
        return _read_friends(data["data"])
    samples = data if isinstance(data, list) else [data]
    return [_read_sample(one, number) for number, one in enumerate(samples)]


def _read_sample(sample: Sample, number: int) -> Sample:
    if "meeting_transcripts" in sample:
        return _read_meeting(sample, number)
    return sample if "conversation" in sample else _read_chat(sample, number)


def _read_friends(scenes: Iterable[dict[str, Any]]) -> list[Sample]:
    seasons: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for scene in sorted(scenes, key=lambda scene: str(scene["title"])):
        seasons[scene["title"].split("_")[0]].append(scene["paragraphs"][0])
    return [
        {
            "sample_id": season,
            "conversation": {f"session_{n}": _read_scene(scene, n) for n, scene in enumerate(group, 1)},
            "qa": [
                _ask(entry["question"], n, {answer["utterance_id"] for answer in entry["answers"]})
                for n, scene in enumerate(group, 1)
                for entry in scene["qas"]
            ],
        }
        for season, group in seasons.items()
    ]


def _read_scene(scene: dict[str, Any], number: int) -> list[dict[str, str]]:
    said = scene.get("utterances:") or scene["utterances"]
    return [
        _say(number, turn["uid"], " and ".join(turn["speakers"]) or "Note", turn["utterance"])
        for turn in said
    ]


def _read_meeting(meeting: dict[str, Any], number: int) -> Sample:
    turns = meeting["meeting_transcripts"]
    asked = [
        _ask(entry["query"], 1, {turn for first, last in spans for turn in range(int(first), int(last) + 1)})
        for entry in meeting["specific_query_list"]
        if (spans := entry["relevant_text_span"])
    ]
    return {
        "sample_id": f"meeting-{number}",
        "conversation": {
            "session_1": [
                _say(1, place, turn["speaker"], turn["content"]) for place, turn in enumerate(turns)
            ]
        },
        "qa": [entry for entry in asked if len(entry["evidence"]) <= MOST_EVIDENCE],
    }


def _read_chat(chat: dict[str, Any], number: int) -> Sample:
    """REALTALK's: as LoCoMo's, with the sessions beside the questions, and other names of texts."""
    said = {key: value for key, value in chat.items() if key.startswith("session_")}
    sessions = {
        key: [{**turn, "text": turn["clean_text"]} for turn in value] if isinstance(value, list) else value
        for key, value in said.items()
    }
    return {"sample_id": f"chat-{number}", "conversation": sessions, "qa": chat["qa"]}


def _say(session: int, place: int, speaker: str, text: str) -> dict[str, str]:
    return {"speaker": speaker, "dia_id": f"D{session}:{place}", "text": text}


def _ask(question: str, session: int, evidence: Iterable[int]) -> dict[str, Any]:
    return {
        "question": question,
        "category": 1,
        "evidence": [f"D{session}:{place}" for place in sorted(evidence)],
    }
