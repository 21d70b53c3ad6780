"""What memory tells of itself, whatever it is, as lines."""

from services.cli.commands.memory.maintenance import format_report


def test_values_stand_below_each_other_and_nested_ones_below_their_name():
    report = {
        "status": "ok",
        "problem": "",
        "version": 12345,
        "nodes": 12345,
        "uptime_seconds": 3725.5,
        "kinds": {"fact": 2, "goal": 1},
        "empty": {},
        "ratio": 0.1236,
        "ready": True,
        "agents": ["scout", "critic"],
        "none": None,
    }
    assert list(format_report(report)) == [
        "status                 ok",
        "version                12345",
        "nodes                  12,345",
        "uptime                 1h02m",
        "kinds",
        "  fact                 2",
        "  goal                 1",
        "ratio                  0.1236",
        "ready                  yes",
        "agents                 scout, critic",
    ]


def test_what_is_under_way_is_told_as_a_share():
    assert list(format_report({"embedding": {"done": 50, "total": 200}})) == [
        "embedding              50 of 200 (25 %)"
    ]
    assert (
        list(format_report({"status": "catching up", "done": 0, "total": 0}))[-1]
        == "progress               0 of 0"
    )


def test_lists_of_objects_and_strange_text():
    lines = list(
        format_report({"failed": [{"file": "a\x1b[2J.md", "reason": "it is\nempty"}, {"file": "b"}]})
    )
    assert lines == [
        "failed",
        "  - file               a[2J.md",
        "    reason             it is empty",
        "  - file               b",
    ]
