"""Clouds, queues and other services that people share."""

from shared.policy.call import Call, Handler
from shared.policy.options import Options
from shared.policy.programs.containers import SHOWS
from shared.policy.programs.rows import Step, first, row
from shared.policy.words import Word

_DESTROYS = (
    r"(delete|destroy|terminate|remove|purge|rb|rm|drop|erase|wipe|nuke|drain|evict|deprovision|truncate"
    r"|flush\w*|reset|kill|delete-.*|terminate-.*|remove-.*|purge-.*|destroy-.*|deregister-.*|.*:(destroy"
    r"|delete|remove|reset)|schedule-key-deletion|uninstall|decommission|cordon|prune|abandon|.*-delete)"
)
_SECRETS = (
    r".*(?i:secret|credential|password|token|access-key|get-parameter|kms|print-access|login|auth|session|keys?$"
    r"|sts|iam|config-view|--raw|--with-decryption).*"
)


_NO_IDENTITIES = (
    r"(?!iam (list-(users|roles|policies|groups|attached-[^ ]*|instance-profiles|entities-[^ ]*)"
    r"|get-(user|role|policy|policy-version|group|role-policy|user-policy|account-summary)) "
    r"|sts get-caller-identity |auth (status|list) ).*"
)
"""Not what names accounts and what they may do, and gives nothing to log in with."""


def _judge_flags(call: Call, found: Options) -> None:
    if not found.operands and found.flags - {"version", "help", "h", "v"}:
        call.find("cloud.change")


_CLOUD = row(
    "region profile output query endpoint-url project zone subscription g resource-group n name a app t team",
    Step("secret.store", words="configure (?!list |list-profiles )"),
    first(
        Step("cloud.destroy", operand=_DESTROYS),
        Step("secret.store", operand=_SECRETS, words=_NO_IDENTITIES),
        Step("secret.store", has="with-decryption"),
        Step("secret.store", operand=".*with-decryption.*"),
        Step("network.send", words="s3 (cp|sync|mv)", does="read-deep 2:"),
        Step("cloud.change", has="prod"),
        Step(operand=SHOWS),
        Step("cloud.change", words="[^ ]+"),
    ),
    _judge_flags,
)
"""Cloud command lines: showing is asked after only if it shows credentials."""


def judge_infrastructure(call: Call) -> None:
    """terraform, pulumi: plans are everyday, changes are not."""
    texts = [word.text for word in call.args]
    words = [text for text in texts if not text.startswith("-")]
    action = words[0] if words else ""
    if (
        action == "destroy"
        or (action != "plan" and {"-destroy", "--destroy"} & set(texts))
        or (action == "state" and words[1:2] and words[1] not in {"list", "show"})
    ):
        call.find("cloud.destroy")
    elif (
        action
        in [
            "",
            *"fmt validate plan show graph providers version init get test help preview diff "
            "synth ls list about lint".split(),
        ]
        or (action == "state")
        or (action == "workspace" and words[1:2] in (["list"], ["show"], ["select"]))
    ):
        if any(text.startswith(("-from-module", "--from-module")) for text in texts):
            call.find("network.fetch")
        for text in texts:
            if text.startswith("-out="):
                call.write(Word(text.partition("=")[2]))
    elif action == "output":
        call.find("secret.environment")
    elif action in {"workspace", "force-unlock", "taint", "untaint", "rm"}:
        call.find("cloud.destroy" if action == "workspace" and "delete" in words else "cloud.change")
    else:
        call.find("cloud.change")


_GH = row(
    "R repo q jq t template L limit s state json b body title F body-file H head B base a assignee l label X "
    "method f raw-field field input",
    Step(words="(?!api ).*", does="read F body-file input"),
    first(
        Step("secret.store", words="auth (?!status )|secret|variable|ssh-key|gpg-key|codespace"),
        Step("cloud.destroy", words="[^ ]* (delete|archive)"),
        Step("network.send", words="gist (create|edit)", does="read 2:"),
        Step("cloud.change", words="api", has="X method f F field raw-field input"),
        Step(words="api"),
        Step("package.install", words="(extension|alias|config) (?!list |get |search )"),
        Step("package.publish", words="(repo|release|gist) (create|fork)"),
        Step("git.remote", words="repo clone"),
        Step(
            words="[^ ]* (list|view|status|diff|checks|watch|download|clone|checkout|ls|show|trace|fork"
            "|create|comment|ready|lint|search|develop)|search|browse|status|help"
        ),
        Step("cloud.change", words="[^ ]* [^ ]* "),
    ),
)
"""Looking is everyday, what others see is asked after."""
_BUS = row(
    "s server creds nkey context user password timeout",
    first(
        Step(
            "guard.tamper",
            words="[^ ]* ([^ ]* )*?(purge|rm|del|delete|edit|restore|seal|rmm|kick|add|update|copy|shutdown"
            "|reset|unsubscribe|declare|recover|evict|step-down|stepdown)",
        ),
        Step("guard.tamper", words="server (?!check |ping |info |list )"),
        Step("network.send", words="pub|publish|request|req|bench|sub|reply"),
        Step(words="[^ ]* (ls|info|report|list|view|get|history|status|ping|check)|rtt|--version|--help|"),
        Step("guard.tamper"),
    ),
)
"""nats and other queues: the state of Mailroom depends on them."""
_MAILROOM = row(
    "",
    first(
        Step(
            words="|status|agents|show|tasks|tail|doctor|kpi|completion|memory search|policy check|audit show"
            "|approvals list"
        ),
        Step("guard.tamper"),
    ),
)
"""Mailroom's own command: agents may look, not decide or stop it."""
_FLEET = row("", first(Step(argument="--(syntax-check|list-(tasks|hosts|tags))"), Step("network.remote")))
"""ansible and its like work on other machines, unless they only read what they would do."""
PROGRAMS: dict[str, Handler] = {
    **dict.fromkeys(
        "aws gcloud az bq doctl linode-cli ibmcloud oci aliyun heroku fly flyctl vercel netlify wrangler "
        "firebase supabase railway render cf eb sam serverless sls amplify hcloud scw exo openstack civo "
        "planetscale pscale databricks snowsql snow stripe twilio sentry-cli datadog newrelic okta "
        "shopify akamai fastly".split(),
        _CLOUD,
    ),
    **dict.fromkeys(
        "terraform tofu terragrunt pulumi cdk cdktf crossplane packer nomad consul waypoint".split(),
        judge_infrastructure,
    ),
    **dict.fromkeys(
        "ansible ansible-playbook salt salt-call puppet chef-client knife fab cap capistrano "
        "ansible-vault pssh pdsh clush dsh".split(),
        _FLEET,
    ),
    **dict.fromkeys("gh glab hub".split(), _GH),
    **dict.fromkeys(
        "nats nats-server nsc nk rabbitmqctl rabbitmqadmin kafka-topics kafka-topics.sh "
        "kafka-consumer-groups pulsar-admin".split(),
        _BUS,
    ),
    "mailroom": _MAILROOM,
}
