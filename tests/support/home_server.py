"""An MCP server like Home Assistant's, with its tools and their schemas, for a house that is a file.

Run it as ``python home_server.py FOLDER``: what is on stands in FOLDER/house.json, what was called in
FOLDER/calls. It speaks 2025-11-25 with the standard library alone; like the real one it has no annotations.
"""

import json
import sys
from pathlib import Path
from typing import Any

HOUSE = {
    "Kitchen Ceiling": ("light", "Kitchen", "on"),
    "Kitchen Counter": ("light", "Kitchen", "on"),
    "Floor Lamp": ("light", "Living Room", "on"),
    "Bedroom Lamp": ("light", "Bedroom", "off"),
    "Desk Lamp": ("light", "Office", "off"),
    "Hallway Light": ("light", "Hallway", "off"),
    "Garden Lights": ("light", "Garden", "off"),
    "Coffee Machine": ("switch", "Kitchen", "off"),
    "Thermostat": ("climate", "Living Room", "heat"),
    "Bedroom Thermostat": ("climate", "Bedroom", "heat"),
    "Living Room Blinds": ("cover", "Living Room", "open"),
    "Garage Door": ("cover", "Garage", "closed"),
    "Front Door": ("lock", "Hallway", "locked"),
    "TV": ("media_player", "Living Room", "playing"),
    "Kitchen Radio": ("media_player", "Kitchen", "playing"),
    "Ceiling Fan": ("fan", "Bedroom", "off"),
    "Rover": ("vacuum", "Hallway", "docked"),
    "Outside Temperature": ("sensor", "Garden", "7.5"),
    "Shopping List": ("todo", "", "2"),
}
"""What there is, by name: its domain, area and first state."""

KINDS = (
    "identify restart update awning blind curtain damper door garage gate shade shutter window water gas "
    "outlet switch tv speaker receiver"
).split()
TEXT = {"type": "string"}
WHERE = {"name": TEXT, "area": TEXT, "floor": TEXT}
DOMAINS = {"domain": {"type": "array", "items": TEXT}}
CLASSES = {"device_class": {"type": "array", "items": {**TEXT, "enum": KINDS}}}
PERCENT = {"type": "integer", "minimum": 0, "maximum": 100}
PLAYS = {**WHERE, **DOMAINS, **CLASSES}


def tool(name: str, description: str, /, *required: str, **properties: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties,
        **({"required": list(required)} if required else {}),
    }
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS = [
    tool(
        "HassTurnOn",
        "Turns on, opens or presses a device or entity; of a lock, it locks. For requests such as 'turn on', "
        "'activate', 'enable' or 'lock'.",
        **PLAYS,
    ),
    tool(
        "HassTurnOff",
        "Turns off or closes a device or entity; of a lock, it unlocks. For requests such as 'turn off', "
        "'deactivate', 'disable' or 'unlock'.",
        **PLAYS,
    ),
    tool("HassCancelAllTimers", "Cancels all timers", area=TEXT),
    tool("HassBroadcast", "Broadcast a message through the home", "message", message=TEXT),
    tool(
        "HassLightSet",
        "Sets the brightness percentage or color of a light",
        **WHERE,
        **DOMAINS,
        color=TEXT,
        temperature={"type": "integer", "minimum": 0, "description": "The color temperature in kelvin"},
        brightness={**PERCENT, "description": "The brightness percentage, where 0 is off"},
    ),
    tool(
        "HassClimateSetTemperature",
        "Sets the target temperature of a climate device or entity",
        "temperature",
        temperature={"type": "number"},
        **WHERE,
    ),
    tool("HassSetPosition", "Sets the position of a device or entity", "position", **PLAYS, position=PERCENT),
    tool("HassStopMoving", "Stops a moving device or entity", **PLAYS),
    tool("HassMediaPause", "Pauses a media player", **PLAYS),
    tool("HassMediaUnpause", "Resumes a media player", **PLAYS),
    tool("HassMediaNext", "Skips a media player to the next item", **PLAYS),
    tool("HassMediaPrevious", "Replays the previous item for a media player", **PLAYS),
    tool(
        "HassSetVolume",
        "Sets the volume percentage of a media player",
        "volume_level",
        **PLAYS,
        volume_level={**PERCENT, "description": "The volume percentage of the media player"},
    ),
    tool("HassVacuumStart", "Starts a vacuum", **WHERE, **DOMAINS),
    tool("HassVacuumReturnToBase", "Returns a vacuum to base", **WHERE, **DOMAINS),
    tool("HassListAddItem", "Add item to a todo list", "item", "name", item=TEXT, name=TEXT),
    tool("HassListCompleteItem", "Complete item on a todo list", "item", "name", item=TEXT, name=TEXT),
    tool("GetDateTime", "Provides the current date and time."),
    tool(
        "todo_get_items",
        "Query a to-do list to find out what items are on it.",
        "todo_list",
        todo_list={**TEXT, "enum": ["Shopping List"]},
        status={**TEXT, "enum": ["needs_action", "completed", "all"], "default": "needs_action"},
    ),
    tool(
        "GetLiveContext",
        "Provides real-time information about the current state, value or mode of devices, sensors, entities "
        "or areas, such as 'Is the light on?'.",
        name={**TEXT, "description": "Filter entities by name or alias (case-insensitive)."},
        domain={
            "anyOf": [TEXT, {"type": "array", "items": TEXT}],
            "description": "Filter entities by domain (e.g. 'light', 'sensor').",
        },
        area={**TEXT, "description": "Filter entities by area name or alias (case-insensitive)."},
    ),
]


def find(given: dict[str, Any]) -> list[str]:
    """The names of what the parameters of a call mean."""
    domains = [given["domain"]] if isinstance(given.get("domain"), str) else given.get("domain", [])
    return [
        name
        for name, (domain, area, _) in HOUSE.items()
        if given.get("name", name).casefold() == name.casefold()
        and given.get("area", area).casefold() == area.casefold()
        and (not domains or domain in domains)
    ]


def describe(states: dict[str, str], names: list[str]) -> str:
    """The things of the house as Home Assistant tells them: YAML within JSON."""
    lines = ["Live Context: An overview of the areas and the devices in this smart home:"]
    for name in names:
        domain, area, _ = HOUSE[name]
        lines += [f"- names: {name}", f"  domain: {domain}", f"  state: '{states[name]}'"]
        lines += [f"  areas: {area}"] if area else []
    return json.dumps({"success": True, "result": "\n".join(lines)})


def call(folder: Path, name: str, given: dict[str, Any]) -> tuple[str, bool]:
    """What the tool answers, and whether it failed."""
    house, calls = folder / "house.json", folder / "calls"
    states = {each: state for each, (_, _, state) in HOUSE.items()}
    states |= json.loads(house.read_text()) if house.exists() else {}
    with calls.open("a") as file:
        file.write(json.dumps([name, given]) + "\n")
    found = find(given)
    if not found:
        return "Error calling tool: MatchFailedError", True
    if name == "GetLiveContext":
        return describe(states, found), False
    if name in ("HassTurnOn", "HassTurnOff"):
        house.write_text(json.dumps(states | dict.fromkeys(found, name.removeprefix("HassTurn").lower())))
    done = [{"name": each, "type": "entity"} for each in found]
    return json.dumps({"response_type": "action_done", "data": {"success": done, "failed": []}}), False


def answer(folder: Path, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None for a method that it has not."""
    if method == "initialize":
        about = {"name": "home-assistant", "version": "1.26.0"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        text, failed = call(folder, params["name"], params.get("arguments") or {})
        return {"content": [{"type": "text", "text": text}], "isError": failed}
    return {} if method == "ping" else None


def main() -> None:
    """Serve until the input ends."""
    folder = Path(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(folder, message["method"], message.get("params") or {})
        error = {"error": {"code": -32601, "message": "There is no such method"}}
        said = {
            "jsonrpc": "2.0",
            "id": message["id"],
            **({"result": result} if result is not None else error),
        }
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
