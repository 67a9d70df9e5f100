//! What must not be shown: passwords, tokens, keys. By the names of variables and options.

use crate::plan::Plan;

/// Values that must not be shown, and are known by themselves.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(pub Vec<String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

/// What takes the place of a secret.
pub(crate) const HIDDEN: &str = "***";
/// A part of a name that contains one of these is a secret's: `DBPASSWORD`, `tokens`.
const SECRET_WITHIN: [&str; 6] = ["PASSW", "PASSPHRASE", "SECRET", "TOKEN", "CREDENTIAL", "APIKEY"];
/// So is a part that is one of these. `passes` and `bypass` are none.
const SECRET_PART: [&str; 3] = ["PASS", "PWD", "PW"];
/// And a name whose last part is one of these: `--key`, `SSH_KEY`, not `--key-size`.
const SECRET_LAST: [&str; 3] = ["KEY", "KEYS", "SSHKEY"];
/// Shorter values are not looked for in outputs: they would be found in words that mean nothing.
const SHORTEST: usize = 4;
/// What stands inside more quotes than this is hidden as a whole.
const QUOTES_MAX: usize = 16;
/// The same for a line of a value of several.
const LINE_SHORTEST: usize = 8;

/// Whether the value of a variable or option of this name is secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // The shell's own, which are folders.
    if ["PWD", "OLDPWD"].contains(&name.as_str()) {
        return false;
    }
    let parts: Vec<&str> =
        name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()).collect();
    parts
        .iter()
        .any(|part| SECRET_PART.contains(part) || SECRET_WITHIN.iter().any(|word| part.contains(word)))
        || parts.last().is_some_and(|last| SECRET_LAST.contains(last))
}

/// A value as it may be shown.
pub fn shown<'a>(name: &str, value: &'a str) -> &'a str {
    if is_secret_name(name) { HIDDEN } else { value }
}

/// A command line as it may be shown: what follows `--password` or stands behind `TOKEN=` is hidden, in scripts and in quotes, too.
pub fn words(words: &[String]) -> Vec<String> {
    let mut hide_next = Next::default();
    words.iter().map(|word| script(word, &mut hide_next, 0)).collect()
}

/// One argument, which may be a script of many words, inside so many quotes.
fn script(text: &str, hide_next: &mut Next, depth: usize) -> String {
    if depth > QUOTES_MAX {
        return HIDDEN.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let space = rest.len() - rest.trim_start().len();
        out.push_str(&rest[..space]);
        rest = &rest[space..];
        let (word, after) = rest.split_at(word_len(rest));
        rest = after;
        if !word.is_empty() {
            out.push_str(&one(word, hide_next, depth));
        }
    }
    out
}

/// Bytes of the word that a text begins with: quotes hold white space together.
fn word_len(text: &str) -> usize {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c.is_whitespace() => return at,
            None => {}
        }
    }
    text.len()
}

/// One word of a script, which `;` and its like may divide into several.
fn one(word: &str, hide_next: &mut Next, depth: usize) -> String {
    if matches!(hide_next, Next::Hidden) {
        *hide_next = Next::Shown;
        return HIDDEN.to_owned();
    }
    let quoted = ['"', '\''].into_iter().find_map(|quote| {
        let inside = word.strip_prefix(quote)?.strip_suffix(quote)?;
        Some((quote, inside))
    });
    if let Some((quote, inside)) = quoted {
        return format!("{quote}{}{quote}", script(inside, hide_next, depth + 1));
    }
    let mut out = String::with_capacity(word.len());
    for piece in word.split_inclusive([';', '|', '&']) {
        let (piece, divider) = match piece.strip_suffix([';', '|', '&']) {
            Some(before) => (before, &piece[before.len()..]),
            None => (piece, ""),
        };
        out.push_str(&assigned(piece, hide_next));
        out.push_str(divider);
        if !divider.is_empty() {
            *hide_next = Next::Shown;
        }
    }
    out
}

/// `NAME=VALUE`, `--placeholder=NAME=VALUE`, `scheme://user:VALUE@host`, `-pVALUE` of `sshpass`; whether the next word is a value.
fn assigned(word: &str, hide_next: &mut Next) -> String {
    let mut begin = 0;
    for (at, _) in word.match_indices('=') {
        let value = &word[at + 1..];
        if is_secret_name(&word[begin..at]) && !value.is_empty() {
            return format!("{}{HIDDEN}", &word[..=at]);
        }
        begin = at + 1;
    }
    if let Some(url) = without_password(word) {
        return url;
    }
    match hide_next {
        Next::OfSshpass if word == "-p" => *hide_next = Next::Hidden,
        Next::OfSshpass if word.starts_with("-p") => {
            *hide_next = Next::Shown;
            return format!("-p{HIDDEN}");
        }
        // Its options come before the command.
        Next::OfSshpass if word.starts_with('-') => {}
        _ if word.rsplit('/').next() == Some("sshpass") => *hide_next = Next::OfSshpass,
        _ if word.starts_with('-') && is_secret_name(word) && !word.contains('=') => {
            *hide_next = Next::Hidden;
        }
        _ => *hide_next = Next::Shown,
    }
    word.to_owned()
}

/// An address whose user has a password.
fn without_password(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://")?;
    let authority = rest.split('/').next()?;
    let (user, host) = authority.rsplit_once('@')?;
    let (user, password) = user.split_once(':')?;
    let after = &rest[authority.len()..];
    (!password.is_empty()).then(|| format!("{scheme}://{user}:{HIDDEN}@{host}{after}"))
}

/// What is known of the next word.
#[derive(Clone, Copy, Default)]
enum Next {
    #[default]
    Shown,
    /// It is the value of an option with a secret's name.
    Hidden,
    /// It may be an option of `sshpass`.
    OfSshpass,
}

/// Takes secret values out of texts.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    /// Knows all secrets of a plan: values of variables, settings and axes with such names, and what its file said beside.
    pub fn of_plan(plan: &Plan) -> Redactor {
        let of_roles = plan.roles.iter().flat_map(|role| &role.environment);
        let of_hosts = plan.hosts.iter().flat_map(|host| &host.settings);
        let variables = plan.environment.iter().chain(of_roles).chain(of_hosts).chain(&plan.everywhere);
        let mut all: Vec<(String, String)> =
            variables.map(|(name, value)| (name.clone(), value.clone())).collect();
        all.extend(plan.points.iter().flatten().map(|(axis, value)| (axis.clone(), value.to_string())));
        all.extend(plan.secrets.0.iter().map(|secret| ("password".to_owned(), secret.clone())));
        Redactor::of(all.iter().map(|(name, value)| (name, value)))
    }

    /// Knows the values of the variables whose names are secret.
    pub fn of<'a>(variables: impl IntoIterator<Item = (&'a String, &'a String)>) -> Redactor {
        let mut secrets: Vec<String> = Vec::new();
        for (_, value) in
            variables.into_iter().filter(|(name, value)| is_secret_name(name) && value.len() >= SHORTEST)
        {
            // Outputs come by the line.
            secrets.extend(value.lines().filter(|line| line.len() >= LINE_SHORTEST).map(str::to_owned));
            secrets.push(value.clone());
            // Rows and documents spell it in their own way.
            secrets.push(serde_json::json!(value).to_string().trim_matches('"').to_owned());
        }
        // A secret that is part of another must not spoil it.
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        secrets.dedup();
        Redactor { secrets }
    }

    /// A command line without them, and without what names give away ([`words`]).
    pub fn words(&self, command: &[String]) -> Vec<String> {
        words(command).into_iter().map(|word| self.text(word)).collect()
    }

    /// The text without them.
    pub fn text(&self, text: String) -> String {
        self.secrets.iter().fold(text, |text, secret| match text.contains(secret.as_str()) {
            true => text.replace(secret.as_str(), HIDDEN),
            false => text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_in_quotes_without_end_are_no_way_to_end_the_program() {
        let half: String = "\"'".repeat(100_000);
        let nested = format!("{half}TOKEN=sesam{}", half.chars().rev().collect::<String>());
        let told = words(&["sh".into(), "-c".into(), nested]);
        assert!(!told[2].contains("sesam"));
    }

    #[test]
    fn a_secret_is_hidden_as_json_spells_it_too() {
        let secret = ("A_TOKEN".to_owned(), "pa\"ss\\word".to_owned());
        let redactor = Redactor::of([(&secret.0, &secret.1)]);
        assert_eq!(redactor.text(format!("{{\"x\":{}}}", serde_json::json!(secret.1))), "{\"x\":\"***\"}");
    }

    #[test]
    fn names_tell_what_is_secret() {
        for name in ["DB_PASSWORD", "api_token", "AWS_SECRET", "SSH_KEY", "--passphrase", "pwd_of_user"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["PATH", "PWD", "THREADS", "RUST_LOG", "--key-size", "--passes", "--bypass"] {
            assert!(!is_secret_name(name), "{name}");
        }
        let line =
            ["x", "--password", "hunter2", "--threads", "2", "TOKEN=abc", "--key=q"].map(str::to_owned);
        assert_eq!(words(&line), ["x", "--password", "***", "--threads", "2", "TOKEN=***", "--key=***"]);
        let script = ["sh", "-c", "export PASSWORD=abc X=1\nDB_KEY=q run"].map(str::to_owned);
        assert_eq!(words(&script), ["sh", "-c", "export PASSWORD=*** X=1\nDB_KEY=*** run"]);
        for (given, told) in [
            ("tool --password hunter2 -v", "tool --password *** -v"),
            ("tool --password -hunter2", "tool --password ***"),
            ("PASSWORD='my secret' tool", "PASSWORD=*** tool"),
            ("bash -c \"tool --token 'a b' x\"", "bash -c \"tool --token *** x\""),
            ("  echo 'it is'\tdone \n", "  echo 'it is'\tdone \n"),
            ("an 'open quote TOKEN=x", "an 'open quote TOKEN=***"),
            ("--placeholder=password=hunter2 -v", "--placeholder=password=*** -v"),
            ("X=1;TOKEN=abc;run --key-size 64", "X=1;TOKEN=***;run --key-size 64"),
            ("sshpass -p hunter2 ssh -p 22 host", "sshpass -p *** ssh -p 22 host"),
            ("/usr/bin/sshpass -v -phunter2 ssh -p22 host", "/usr/bin/sshpass -v -p*** ssh -p22 host"),
            ("curl https://me:hunter2@host:80/a@b", "curl https://me:***@host:80/a@b"),
            ("tool --token; next", "tool --token; next"),
        ] {
            assert_eq!(words(&["sh".into(), "-c".into(), given.into()])[2], told);
        }
        let variables = [("A_TOKEN", "geheim"), ("B_TOKEN", "geheim-2"), ("C_KEY", "ab"), ("D", "open")];
        let variables: Vec<(String, String)> =
            variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let redactor = Redactor::of(variables.iter().map(|(k, v)| (k, v)));
        assert_eq!(redactor.text("geheim-2, geheim, ab, open".into()), "***, ***, ab, open");
        let key = ("A_KEY".to_owned(), "-----BEGIN\nMIIEvQIBADANBg\nend".to_owned());
        let redactor = Redactor::of([(&key.0, &key.1)]);
        assert_eq!(redactor.text("line MIIEvQIBADANBg, end".into()), "line ***, end");
    }
}
