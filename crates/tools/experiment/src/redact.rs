//! What must not be shown: passwords, tokens, keys. By the names of variables and options.

/// What takes the place of a secret.
const HIDDEN: &str = "***";
/// Parts of names whose values are secret.
const SECRET: [&str; 6] = ["PASS", "SECRET", "TOKEN", "KEY", "CREDENTIAL", "PWD"];
/// Shorter values are not looked for in outputs: they would be found in words that mean nothing.
const SHORTEST: usize = 4;

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

/// A command line as it may be shown: what follows `--password` or stands behind `TOKEN=` is hidden.
pub fn words(words: &[String]) -> Vec<String> {
    let mut hide_next = false;
    words
        .iter()
        .map(|word| {
            let hide = std::mem::take(&mut hide_next);
            // A script in one word has variables, too.
            let word: String = word.split_inclusive(char::is_whitespace).map(assigned).collect();
            if word.starts_with('-') {
                hide_next = is_secret_name(&word) && !word.contains('=');
                return word;
            }
            if hide { HIDDEN.to_owned() } else { word }
        })
        .collect()
}

/// `NAME=VALUE` without a secret value.
fn assigned(word: &str) -> String {
    match word.split_once('=').filter(|(name, value)| is_secret_name(name) && !value.trim().is_empty()) {
        Some((name, value)) => {
            let space = &value[value.trim_end().len()..];
            format!("{name}={HIDDEN}{space}")
        }
        None => word.to_owned(),
    }
}

/// Takes secret values out of texts.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    /// Knows the values of the variables whose names are secret.
    pub fn of<'a>(variables: impl IntoIterator<Item = (&'a String, &'a String)>) -> Redactor {
        let secret = |(name, value): (&String, &String)| {
            (is_secret_name(name) && value.len() >= SHORTEST).then(|| value.clone())
        };
        let mut secrets: Vec<String> = variables.into_iter().filter_map(secret).collect();
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
        let variables = [("A_TOKEN", "geheim"), ("B_TOKEN", "geheim-2"), ("C_KEY", "ab"), ("D", "open")];
        let variables: Vec<(String, String)> =
            variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let redactor = Redactor::of(variables.iter().map(|(k, v)| (k, v)));
        assert_eq!(redactor.text("geheim-2, geheim, ab, open".into()), "***, ***, ab, open");
    }
}
