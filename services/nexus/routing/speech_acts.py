"""What a message does: it asks, requests, tells, or forbids. Effects follow only from requests."""

import re
from enum import Enum

from shared.text.sentences import split_sentences


class Act(Enum):
    """What a message does."""

    REQUEST = "request"
    QUESTION = "question"
    STATEMENT = "statement"
    NEGATED = "negated"
    HYPOTHETICAL = "hypothetical"
    QUOTED = "quoted"


_LEAD = (
    r"^\W*(?:(?:hey|hi|hello|ok|okay|please|pls|kindly|and|so|but|well|no|wait|then|also|oh|um+|nexus|"
    r"good\s+morning|thanks|yes|yeah|yep|actually|right|now|just)\b[\s,.!:-]*)*"
)
_NEGATED = re.compile(
    rf"(?i){_LEAD}(?:(?:do\s+not|don['’]?t|dont|never)\s+(?!forget\b|worry\b|know\b|let\s+(?:me|us)\b|you\b|i\b|we\b|understand\b)"
    r"|(?:hold\s+off|not\s+yet|skip\b(?!.*\?)|leave\s+(?:the|it|that|this|my|our)\b[^.?!]*\b(?:alone|be|as\s+(?:it\s+)?is)\b"
    r"|(?:there['’]?s\s+|there\s+is\s+)?no\s+need\s+to|under\s+no\s+circumstances|(?:i|we)\s+(?:don['’]?t|do\s+not)\s+want\s+(?:you|any)|"
    r"stop\s+asking|you\s+(?:must|should|may|can)\s*(?:not|n['’]t)\b"
    r"|no\s+(?:more\s+)?(?:jobs?|goals?|runs?|reminders?)\b(?!.*\?)|nothing\s+(?:for\s+)?(?:tonight|today|tomorrow|this\s+week)\b))"
)
_NOT_LATER = re.compile(
    r"(?i)\b(?:don['’]?t|do\s+not)\s+(?:run|start|do|touch|deploy|fix|send|change|execute|push|delete|begin|launch|build|test|scan)"
    r"\b[^.?!]*(?:\b(?:yet|anything|any|it|that|this|now)\b|[.!]?\s*$)"
)
_LIMITED = re.compile(
    r"(?is)^(?P<head>.{8,}?)\s*(?:[,;.:–—-]|\bbut\b)\s*(?:(?:and|but|please|pls|just)\s+)*(?:do\s+not|don['’]?t|dont)\s+"
    r"(?P<verb>send|change|touch|alter|delete|overwrite|edit|rename|publish|post|merge|push|commit|invent|lose)\b.{0,80}$"
)
"""A request with a limit: "proofread it, don't change the headings"."""
_POLITE = re.compile(
    rf"(?i){_LEAD}(?:(?:can|could|would|will|might)\s+(?:you|we|someone|somebody|anyone|anybody|the\s+team|cortex|scout|(?:the\s+)?(?:engineer|critic|conductor|frontier))"
    r"(?:\s+(?:please|kindly|just|maybe|possibly|perhaps|quickly|also|mind))*\b|would\s+you\s+mind|(?:any\s+chance|is\s+it\s+possible)\b"
    r"|(?:is|are)\s+(?:there\s+)?(?:you|someone|somebody|anyone|anybody|the\s+team)\s+(?:able\s+to|who\s+(?:can|could)|free\s+to|up\s+for)\b"
    r"|why\s+don['’]?t\s+you|how\s+about\s+you|would\s+it\s+be\s+possible|(?:can|could|may)\s+i\s+(?:have|get|see)\b"
    r"|(?:can|could)\s+(?:something|this|that|it|these|the\s+[\w-]+(?:\s+[\w-]+)?)\s+(?:please\s+)?be\s+"
    r"(?:done|run|made|fixed|checked|processed|sorted|prepared|converted|cleaned|tested|moved)\b|mind\s+\w+ing\b"
    r"|could\s+(?:\S+\s+){1,9}?be\s+(?:\w+ed|done|run|made|put|sent|set|taken|kept|written|sorted)\b"
    r"|(?:i|we)\s+(?:was|were|am|are)?\s*(?:just\s+)?wonder\w*\s+(?:if|whether)\s+(?:you|someone|somebody|anyone|anybody|the\s+team)\s+"
    r"(?:could|might|can|would)\b|(?:when|whenever|while|whilst|once|before|after|as\s+soon)\b[^?!.]{4,60},\s*(?:could|would|can|will)\s+(?:you|someone|somebody|anyone|the\s+team)\b)"
)
_TAG = re.compile(
    r"(?i),?\s*(?:would|could|can|will|won['’]t)\s+(?:you|someone|somebody)(?:\s+please)?\s*\?\s*$"
)
"""What makes a request of an order at its end: "draft a letter, would you?"."""
_CONFIRM = re.compile(
    r"(?i)\s*[,;.!–—-]?\s+(?:ok(?:ay)?|yes|yeah|right|alright|all\s+right|please|pls|deal|agreed)\s*\?\s*$"
)
"""What asks for a yes at the end of an order or a statement: "run them again, ok?"."""
_WISH = re.compile(
    r"(?i)\b(?:would|['’]d)\s+(?:really\s+|so\s+)?(?:love|like|appreciate|welcome)\s+it\s+if\b|\b(?:i|we)\s*(?:['’]d|would|should|shall|will|['’]ll)?\s*(?:really\s+)?(?:want|need|like|love|appreciate)\b(?!\s+(?:it|this|that|the)\b[^.]*$)"
    r"|\b(?:it(?:\s+would|['’]d)|would)\s+be\s+(?:(?:so|very|really|quite|an?|of)\s+)*\w+\s+(?:\w+\s+)?(?:if|to|for)\b|\b(?:needs?|has|have|ought)\s+to\s+be\b"
    r"|\b(?:someone|somebody)\s+(?:needs|has|ought)\s+to\b"
    r"|\b(?:please|pls|kindly)\b|\b(?:i|we)(?:['’]d|\s+(?:would|should))\s+be\s+(?:\w+\s+)?\w+\s+(?:if|to\s+(?:have|get|see))\b|\btake\s+care\s+of\b|\bi\s+want\b|\bwish\s+you\b|\blet['’]?s\b|\b(?:you|someone|somebody)\s+(?:should|must)\b"
)
_ORDER = re.compile(
    rf"(?i){_LEAD}(?:do\s+(?:me|us|the|an?|this|that|it|these|those|all|everything|some)\b"
    r"(?!\s+(?:[\w'’-]+\s+){0,3}?(?:go|have|need|know|come|work|change|exist|start|end|get|look|like)\b)"
    r"|have\s+(?:an?|another)\s+(?:\w+\s+)?(?:go|look|try|crack|stab|think|read)\b"
    r"|(?:have|let|get)\s+(?:the\s+)?(?:engineer|critic|scout|cortex|frontier|conductor|team)\s+(?!been\b|found\b|done\b|\w+ed\b))"
    r"(?!.*\?\s*$)"
)
_HAVE_DONE = re.compile(
    rf"(?i){_LEAD}(?:have|get)\s+(?:the|my|our|all|these|those|this|that|an?)\s+(?!.*(?:\bbeen\b|\?\s*$))"
    r"(?=.*(?:(?:^|\s)[~.]?/\w|\basleep\b|\bto\s?night\b|\bover\s?night\b|\bby\s+(?:tomorrow|(?:next\s+)?\w+day)\b))"
    r"(?:\S+\s+)+?(?!(?:pass|fail|finish|arriv|chang|mov|work|end|start|stopp|happen|land|crash|repli|answer|agree|decid)e?d\b)"
    r"(?:\w{3,}ed|done|made|written|rewritten|sent|put|read|proofread|redone|rebuilt|built)\b"
)
"""That something is to be done by another: "have the scans in ~/box named"."""
_QUESTION = re.compile(
    rf"(?i){_LEAD}(?:(?:on|in|at|to|as|by|of|for|from|with|about|until|till|since)\s+)?"
    r"(?:(?:who|whose|whom|what|which|when|where|why|how|wheres|whats|whos|hows|whens)\b(?:['’]?(?:s|re|d|ll))?(?!\s+(?:don['’]?t\s+you|about\s+you))"
    r"|(?:is|are|am|was|were|does|did|do|has|had|have|should|shall|may|might|isn['’]?t|aren['’]?t|didn['’]?t|doesn['’]?t|hasn['’]?t|haven['’]?t)"
    r"\s+(?!the\s+same\b|it\s+(?:now|again)\b|that\s+(?:now|again|tonight)\b)(?:i|we|you|he|she|it|they|there|the|this|that|these|those|any\w*|some\w*|my|our|your|his|her|their|an?|all|everything|[A-Z]\w+|goal\w*)\b"
    r"|(?:can|could|must|will|would)\s+(?!(?:be|love|like|appreciate|welcome)\b)(?:i|he|she|it|they|there|the|this|that|these|our|my|[A-Z]\w+)\b|any\b|anything\b|anyone\b|got\s+any\b)"
)
_BESIDE = re.compile(
    rf"(?i){_LEAD}(?:when|once|while)\s+"
    r"(?:i|we|you|he|she|it|they|every\w+|no\s?(?:body|one))\b"
    r"(?!\S*\s.*\b(?:i|we|he|she|they)\b)\S*(?:\s+\S+){5,}(?<!\?)\s*$"
)
"""A clause that says when: "when I'm in bed go over them". A question has its verb before its subject."""
_THEN_ORDER = re.compile(
    r"(?i)^(?!.*\b(?:said|says?|told|asked|wrote)\b).*[,;:–—-]\s*(?:(?:so|and|then|please|just|now|better)\s+)*"
    r"(?:do|fix|tidy|sort|find|figure|check|make|run|clean|get"
    r"|put|take|see|write|rewrite|look|give|send|tell|stop|start|try|turn|build|rebuild|update|change|correct|delete|remove"
    r"|drop|keep|note|store|save|add|move|show|bring|deal|handle|investigate|translate|convert|compare|list|count|test|review"
    r"|summari[sz]e|shorten|finish|repair|improve|prepare|mark|rename|cancel|forget|remember|remind)\s+"
    r"(?:it|this|that|them|these|those|out|up|me|us|the|an?|all|into|after|with|why|who|what|how|off|down|for|my|our)\b"
)
"""An order after what it is about: "the readme is a mess, tidy it"."""
_THEN_ASKS = re.compile(
    r"(?i)[,;:–—]\s*(?:(?:so|and|but)\s+)?(?:what['’]?s|(?:what|who|where|when|which|how|why)(?:\s+(?:much|many|long|of\s+them))?"
    r"\s+(?:is|are|was|were|did|do|does|has|have|can|should|will|would))\b"
)
"""A question after what it is about: "the rent went to 900, what is that in percent"."""
_HYPOTHETICAL = re.compile(
    rf"(?i){_LEAD}(?:what\s+(?:if|would)|if\s+(?:i|we|you|it|they|the)\b[^,?!.]*[,?]?\s*(?:would|could|what|how|it['’]?d)|would\s+it\s+(?:be|make|help|hurt|take|cost)|should\s+(?:i|we)\b|"
    r"(?:maybe|perhaps)\s+(?:i|we)\b|(?:i|we)\s+(?:was|were|am|are|['’]m|['’]re)?\s*(?:wonder\w*|thinking|considering)\b|"
    r"(?:i|we)\s+(?:might|may|could)\b|suppose\b|imagine\b|theoretically|hypothetically|in\s+theory|one\s+day)"
)
_SUBJECT = (
    r"(?:i|we|he|she|it|they|there|the|an?|this|that|these|those|our|my|his|her|their|its|some|many|most|all|both|"
    r"nobody|everyone|everybody|someone|somebody"
    r"|(?!(?:scan|check|show|list|find|run|test|lint|count|stop|cancel|see|search|get|give|compare|review|make|fix|start|look"
    r"|read|write|delete|remove|move|add|note|which|what)\b)(?-i:[A-Z][a-zà-ÿ]+(?:\s+[A-Z][a-zà-ÿ]+)?)(?=\s+(?:is|are|was|were|has|had|will|would|can|could|does|did|said|got|went|came|took|made|works?|moved|likes?|"
    r"prefers?|wants?|needs?|paid|left|sent|bought|sold|lost|found|broke|gave|told|brought|kept|has\s+to|\w{3,}ed|owns|runs|handles|manages|leads|maintains|reviews|approves|signs|knows|keeps|lives|sits|speaks"
    r"|uses|takes|gets|pays|drives|plays|teaches|looks|thinks|says|reports|starts|comes|goes|leaves|joins|covers|writes|isn['’]t|doesn['’]t|won['’]t|hasn['’]t)\b)"
    r"|(?!(?:tell|say|ask|check|see|show|explain|let|make|find|suppose|imagine|pretend|translate|write|fix|run|send|put|give|only|not|if"
    r"|wh\w+|how|is|are|was|were|am|do|does|did|can|could|would|should|will|any\w*|yes|no|please)\b)"
    r"[\w'’-]+(?:\s+[\w-]+)?(?=\s+(?:is|are|was|were|has|isn['’]t|aren['’]t|wasn['’]t|expires?|costs?)\s+\w))"
)
_STATEMENT = re.compile(
    rf"^{_LEAD.removeprefix('^')}(?:from\s+now\s+on\b\W*|as\s+of\s+(?:today|now|\w+day)\b\W*)?(?:{_SUBJECT}|i['’](?:m|ve|d|ll)|(?:it|that|there|he|she)['’]s|(?:we|they)['’](?:re|ve|d|ll)|im|ive)\b"
    r"|^\w+ing\s+(?:\w+\s+){0,2}?(?:is|are|was|were)\b",
    re.IGNORECASE,
)
_NOTED = re.compile(
    rf"(?i){_LEAD}(?!(?:wh\w+|how|add|alarm|ask|book|calc\w*|cancel|check|compute|convert|count|find|fix|forget|get|give|goal|list|look|make|mark|move|open|put"
    r"|read|remember|remind\w*|run|search|send|set|show|snooze|stop|sum|task|tell|timer|to-?do|tonight|translate|weather|write)\b)"
    r"(?:(?:[^\W\d_]|['’-])+\s+){0,4}?(?:(?:[^\W\d_]|['’-])+\s*(?::|=)\s*(?=\S*\d|\S+\s+\S*\d|\S*@)\S+(?:\s+[\w.-]+){0,2}"
    r"|(?:number|no\.?|code|pin|password|iban|plate|phone|licen[cs]e)\s+(?=\S*\d)\S{4,})\s*[.!]?\s*$"
)
"""What is written down without a verb: "wifi password: heron-21", "insurance number 44-8812-9"."""
_QUOTED = re.compile(
    r"(?is)^\s*(?:>|```)|\b(?:log|mail|email|letter|page|message|ticket|comment|note|file|he|she|they|it|text|website)\s+"
    r"(?:says?|said|reads?|wrote|contains?|told\s+me)\b\s*[:,]?\s*[\"“'«>\n]|\bgot\s+this\b|\bforwarded\s+message\b"
)


LETTER = re.compile(
    r"(?i)\W*(?:(?:please|can\s+you|could\s+you)\s+)*(?:write|send)\s+(?:an?\s+|another\s+)?"
    r"(?:letter|e-?mail|mail|message|note|line)\s+to\s+\S+(?:\s+[A-Z]\S+)?\s*[:,]"
)
"""How a letter is asked for, before its text, which may be a question or an order to another."""


def find_act(text: str) -> Act:
    """What ``text`` does, by the form of its sentences: a request in any of them counts, unless one forbids.

    A sentence that no rule knows is a request if it begins with neither its subject nor a question word.
    """
    if letter := LETTER.match(text):
        text = letter[0]
    if _QUOTED.search(text):
        return Act.QUOTED
    limited = _LIMITED.match(text[:2_000])
    if limited and not re.search(rf"(?i)\b{limited['verb']}\b", limited["head"]):
        text = limited["head"]
    acts = [find_sentence_act(sentence) for sentence in split_sentences(text[:2_000])]
    order = (Act.NEGATED, Act.REQUEST, Act.QUESTION, Act.HYPOTHETICAL, Act.STATEMENT)
    return next((act for act in order if act in acts), Act.STATEMENT)


def find_sentence_act(sentence: str) -> Act:
    """What one sentence does."""
    if _NEGATED.search(sentence) or _NOT_LATER.search(sentence):
        return Act.NEGATED
    if confirm := _CONFIRM.search(sentence):
        act = find_sentence_act(sentence[: confirm.start()])
        return act if act is Act.REQUEST else Act.QUESTION
    if (
        _POLITE.match(sentence)
        or _ORDER.match(sentence)
        or _HAVE_DONE.match(sentence)
        or _TAG.search(sentence)
    ):
        return Act.REQUEST
    if _HYPOTHETICAL.match(sentence):
        return Act.HYPOTHETICAL
    if _BESIDE.match(sentence):
        return Act.REQUEST
    if _QUESTION.match(sentence):
        return Act.QUESTION
    if _WISH.search(sentence) or (_STATEMENT.match(sentence) and _THEN_ORDER.search(sentence)):
        return Act.REQUEST
    if sentence.rstrip(" \"'”)").endswith("?"):
        return Act.QUESTION
    if _NOTED.match(sentence):
        return Act.STATEMENT
    if not _STATEMENT.match(sentence):
        return Act.REQUEST
    return Act.QUESTION if _THEN_ASKS.search(sentence) else Act.STATEMENT
