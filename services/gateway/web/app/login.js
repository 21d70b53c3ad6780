// Signing in: with the code behind the # of a link, with what is pasted, or through the team's provider.

const TOKEN = "mr_";
const state = document.getElementById("state");
const form = document.getElementById("form");

function say(text, bad = false) {
  state.textContent = text;
  state.classList.toggle("bad", bad);
}

/** Where to go afterwards: a path of this gateway, and nothing else. */
function next() {
  const wanted = new URL(new URLSearchParams(location.search).get("next") || "/", location.origin);
  return wanted.origin === location.origin ? wanted.pathname + wanted.search : "/";
}

async function signIn(body) {
  say("Signing in …");
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch("/api/v1/session", options).catch(() => null);
  if (answer?.ok) {
    location.replace(next());
    return;
  }
  const problem = (await answer?.json().catch(() => null)) || { detail: "The office does not answer" };
  say([problem.detail, problem.cure].filter(Boolean).join(". "), true);
  form.elements.secret.focus();
}

async function showProvider() {
  const answer = await fetch("/login/methods").catch(() => null);
  const methods = answer?.ok ? await answer.json() : {};
  document.getElementById("provider").hidden = !methods.oidc;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const given = form.elements.secret.value.trim();
  const secret = given.slice(given.lastIndexOf("#") + 1);
  void signIn(secret.startsWith(TOKEN) ? { token: secret } : { link: secret });
});

const refused = new URLSearchParams(location.search).get("refused");
const code = location.hash.slice(1);
// Neither the history nor what is copied from the address bar is to have the code.
if (code) history.replaceState(null, "", location.pathname + location.search);
void showProvider();
if (code) void signIn({ link: code });
else if (refused) say("Your account is not one of this office's people. Ask its owner to add its address.", true);
else form.elements.secret.focus();
