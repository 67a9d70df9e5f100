//! What must not be shown: passwords, tokens, keys. By the names of variables and options.

/// What takes the place of a secret.
const HIDDEN: &str = "***";
/// Parts of names whose values are secret.
const SECRET: [&str; 6] = ["PASS", "SECRET", "TOKEN", "KEY", "CREDENTIAL", "PWD"];
/// Shorter values are not looked for in outputs: they would be found in words that mean nothing.
const SHORTEST: usize = 4;
/// The same for a line of a value of several.
const LINE_SHORTEST: usize = 8;

/// Whether the value of a variable or option of this name is secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // The shell's own, which are folders.
    !["PWD", "OLDPWD"].contains(&name.as_str()) && SECRET.iter().any(|part| name.contains(part))
}

/// A value as it may be shown.
pub fn shown<'a>(name: &str, value: &'a str) -> &'a str {
    if is_secret_name(name) { HIDDEN } else { value }
}

/// A command line as it may be shown: what follows `--password` or stands behind `TOKEN=` is hidden, in scripts and in quotes, too.
pub fn words(words: &[String]) -> Vec<String> {
    let mut hide_next = false;
    words.iter().map(|word| script(word, &mut hide_next)).collect()
}

/// One argument, which may be a script of many words.
fn script(text: &str, hide_next: &mut bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let space = rest.len() - rest.trim_start().len();
        out.push_str(&rest[..space]);
        rest = &rest[space..];
        let (word, after) = rest.split_at(word_len(rest));
        rest = after;
        if !word.is_empty() {
            out.push_str(&one(word, hide_next));
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

fn one(word: &str, hide_next: &mut bool) -> String {
    if std::mem::take(hide_next) {
        return HIDDEN.to_owned();
    }
    let quoted = ['"', '\''].into_iter().find_map(|quote| {
        let inside = word.strip_prefix(quote)?.strip_suffix(quote)?;
        Some((quote, inside))
    });
    if let Some((quote, inside)) = quoted {
        return format!("{quote}{}{quote}", script(inside, hide_next));
    }
    if let Some((name, _)) =
        word.split_once('=').filter(|(name, value)| is_secret_name(name) && !value.is_empty())
    {
        return format!("{name}={HIDDEN}");
    }
    *hide_next = word.starts_with('-') && is_secret_name(word) && !word.contains('=');
    word.to_owned()
}

/// Takes secret values out of texts.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    /// Knows the values of the variables whose names are secret.
    pub fn of<'a>(variables: impl IntoIterator<Item = (&'a String, &'a String)>) -> Redactor {
        let mut secrets: Vec<String> = Vec::new();
        for (_, value) in
            variables.into_iter().filter(|(name, value)| is_secret_name(name) && value.len() >= SHORTEST)
        {
            // Outputs come by the line.
            secrets.extend(value.lines().filter(|line| line.len() >= LINE_SHORTEST).map(str::to_owned));
            secrets.push(value.clone());
        }
        secrets.dedup();
        // A secret that is part of another must not spoil it.
        secrets.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Redactor { secrets }
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
    fn names_tell_what_is_secret() {
        for name in ["DB_PASSWORD", "api_token", "AWS_SECRET", "SSH_KEY", "--passphrase", "pwd_of_user"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["PATH", "PWD", "THREADS", "RUST_LOG"] {
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
