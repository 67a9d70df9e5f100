//! `PortUri`: how a user names a port, from wrappers to options, and how each consumer takes its own options out.
//!
//! The form is `[wrapper+...]scheme:target[?key=value[&key=value...]]`. The target may hold colons
//! (`dpdk:0000:3b:00.0`). The characters `?&=%+` in a target, a key or a value are written as `%XX`; a bare `+` or `=` is
//! taken as itself where it cannot be mistaken.

use crate::OpenError;
use barewire_text::suggest;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};
use std::str::FromStr;

/// The schemes that a URI may name, with the words that a message shows for each.
pub const SCHEMES: &[&str] = &["dpdk", "mem", "packet", "pcap", "unix", "xdp"];
/// The wrappers that may stand in front of a scheme.
pub const WRAPPERS: &[&str] = &["fault", "gso", "trace"];

/// One wrapper in front of the scheme, the outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// Its name: one of [`WRAPPERS`].
    pub name: String,
}

/// A parsed port name. Options are one flat query, shared by the wrappers and the port: each consumer
/// [`take`](PortUri::take)s its own keys, the last one calls [`finish`](PortUri::finish).
#[derive(Clone, Debug)]
pub struct PortUri {
    /// Wrappers, outermost first.
    pub wrappers: Vec<Wrapper>,
    /// What kind of port: one of [`SCHEMES`].
    pub scheme: String,
    /// Interface, file, name or device, decoded. Empty only for `pcap:`.
    pub target: String,
    /// The options that nobody has taken yet, decoded.
    pub options: BTreeMap<String, String>,
    /// What was typed, for messages; survives `take`.
    text: String,
    /// Keys that consumers have asked for, for the message about unknown ones.
    asked: Vec<&'static str>,
}

impl PartialEq for PortUri {
    fn eq(&self, other: &Self) -> bool {
        (&self.wrappers, &self.scheme, &self.target, &self.options)
            == (&other.wrappers, &other.scheme, &other.target, &other.options)
    }
}

impl Eq for PortUri {}

impl PortUri {
    /// A URI without wrappers and options. The scheme is not checked; parsing does that.
    pub fn new(scheme: &str, target: &str) -> PortUri {
        let mut uri = PortUri {
            wrappers: Vec::new(),
            scheme: scheme.to_owned(),
            target: target.to_owned(),
            options: BTreeMap::new(),
            text: String::new(),
            asked: Vec::new(),
        };
        uri.text = uri.to_string();
        uri
    }

    /// The same URI with one more option.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Display) -> PortUri {
        self.options.insert(key.to_owned(), value.to_string());
        self.text = self.to_string();
        self
    }

    /// The URI as it was typed, with every option, for messages and descriptions.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Takes the outermost wrapper off, so that what remains names the port inside it.
    pub fn unwrap_outer(&mut self) -> Option<Wrapper> {
        (!self.wrappers.is_empty()).then(|| self.wrappers.remove(0))
    }

    /// Takes option `key` out, parsed; `None` when it was not given.
    ///
    /// # Errors
    /// [`OpenError::BadUri`] that names the key, the value and what was expected.
    pub fn take<T>(&mut self, key: &'static str) -> Result<Option<T>, OpenError>
    where
        T: FromStr,
        T::Err: Display,
    {
        let Some(value) = self.take_text(key) else { return Ok(None) };
        value.parse().map(Some).map_err(|e| self.bad_value(key, &value, &format!("{e}")))
    }

    /// As [`take`](Self::take), with a default.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_or<T>(&mut self, key: &'static str, default: T) -> Result<T, OpenError>
    where
        T: FromStr,
        T::Err: Display,
    {
        Ok(self.take(key)?.unwrap_or(default))
    }

    /// Takes a yes-or-no option: `1 true yes on` or `0 false no off`. False when it was not given.
    ///
    /// # Errors
    /// [`OpenError::BadUri`] for any other word.
    pub fn take_flag(&mut self, key: &'static str) -> Result<bool, OpenError> {
        match self.take_text(key).as_deref() {
            None | Some("0" | "false" | "no" | "off") => Ok(false),
            Some("1" | "true" | "yes" | "on") => Ok(true),
            Some(other) => Err(self.bad_value(key, other, "1 or 0 is expected")),
        }
    }

    /// Takes an option that is one of a few words.
    ///
    /// # Errors
    /// [`OpenError::BadUri`] with the nearest right word.
    pub fn take_choice<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, OpenError> {
        let Some(value) = self.take_text(key) else { return Ok(None) };
        if let Some((_, choice)) = words.iter().find(|(word, _)| *word == value) {
            return Ok(Some(*choice));
        }
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Err(self.bad_value(key, &value, &suggest(&value, &names)))
    }

    /// Takes option `key` out as it stands.
    pub fn take_text(&mut self, key: &'static str) -> Option<String> {
        if !self.asked.contains(&key) {
            self.asked.push(key);
        }
        self.options.remove(key)
    }

    /// Refuses whatever nobody took. Called by the last consumer, the port itself.
    ///
    /// # Errors
    /// [`OpenError::BadUri`] that names the key, the nearest right one and all that are known.
    pub fn finish(&self) -> Result<(), OpenError> {
        let Some(key) = self.options.keys().next() else { return Ok(()) };
        let mut known = self.asked.clone();
        known.sort_unstable();
        let why = if known.is_empty() {
            format!("unknown option `{key}`; this port takes no options")
        } else {
            format!("unknown option `{key}`; {}", suggest(key, &known))
        };
        Err(self.bad(why))
    }

    /// An [`OpenError::BadUri`] about this URI.
    pub fn bad(&self, why: impl Into<String>) -> OpenError {
        OpenError::BadUri { uri: self.text.clone(), why: why.into() }
    }

    /// An [`OpenError::BadUri`] about one option of this URI.
    pub fn bad_value(&self, key: &str, value: &str, why: &str) -> OpenError {
        self.bad(format!("option `{key}={value}`: {why}"))
    }

    /// An [`OpenError::Io`] about this URI, from a call that failed.
    pub fn io(&self, call: &'static str, source: std::io::Error) -> OpenError {
        OpenError::Io { uri: self.text.clone(), call, source }
    }
}

impl FromStr for PortUri {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<PortUri, OpenError> {
        let bad = |why: String| OpenError::BadUri { uri: text.to_owned(), why };
        let Some((front, rest)) = text.split_once(':') else {
            return Err(bad(format!(
                "no `:`; a port is [wrapper+]scheme:target[?key=value&...], for example {}",
                if text.is_empty() { "packet:eth0".into() } else { format!("packet:{text}") }
            )));
        };
        let mut names: Vec<&str> = front.split('+').collect();
        let scheme = names.pop().unwrap_or_default();
        if !SCHEMES.contains(&scheme) {
            let hint = if WRAPPERS.contains(&scheme) {
                format!("`{scheme}` is a wrapper and stands in front of a port: {scheme}+packet:eth0")
            } else {
                suggest(scheme, SCHEMES)
            };
            return Err(bad(format!("unknown scheme `{scheme}`; {hint}")));
        }
        let mut wrappers: Vec<Wrapper> = Vec::with_capacity(names.len());
        for name in names {
            if !WRAPPERS.contains(&name) {
                return Err(bad(format!("unknown wrapper `{name}`; {}", suggest(name, WRAPPERS))));
            }
            if wrappers.iter().any(|w| w.name == name) {
                // Options are flat: a second one could not be given any of its own.
                return Err(bad(format!("wrapper `{name}` is named twice")));
            }
            wrappers.push(Wrapper { name: name.to_owned() });
        }

        let (target, query) = match rest.split_once('?') {
            Some((target, query)) => (target, Some(query)),
            None => (rest, None),
        };
        let target = decode(target).map_err(&bad)?;
        if target.is_empty() && scheme != "pcap" {
            return Err(bad(format!("`{scheme}:` needs a target, as in {}", example(scheme))));
        }
        let mut options = BTreeMap::new();
        for pair in query.into_iter().flat_map(|q| q.split('&')) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(bad(format!("option `{pair}` has no value; write {pair}=VALUE")));
            };
            let (key, value) = (decode(key).map_err(&bad)?, decode(value).map_err(&bad)?);
            if key.is_empty() {
                return Err(bad(format!("option `{pair}` has no name")));
            }
            if options.contains_key(&key) {
                return Err(bad(format!("option `{key}` is given twice")));
            }
            options.insert(key, value);
        }
        Ok(PortUri {
            wrappers,
            scheme: scheme.to_owned(),
            target,
            options,
            text: text.to_owned(),
            asked: Vec::new(),
        })
    }
}

impl Display for PortUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for wrapper in &self.wrappers {
            write!(f, "{}+", wrapper.name)?;
        }
        write!(f, "{}:", self.scheme)?;
        encode(f, &self.target)?;
        for (i, (key, value)) in self.options.iter().enumerate() {
            f.write_char(if i == 0 { '?' } else { '&' })?;
            encode(f, key)?;
            f.write_char('=')?;
            encode(f, value)?;
        }
        Ok(())
    }
}

fn example(scheme: &str) -> &'static str {
    match scheme {
        "dpdk" => "dpdk:0000:3b:00.0",
        "mem" => "mem:NAME",
        "unix" => "unix:MINE.sock,THEIRS.sock",
        "xdp" => "xdp:eth0",
        _ => "packet:eth0",
    }
}

fn encode(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for c in text.chars() {
        match c {
            '?' | '&' | '=' | '%' | '+' => write!(f, "%{:02X}", c as u32)?,
            c => f.write_char(c)?,
        }
    }
    Ok(())
}

fn decode(text: &str) -> Result<String, String> {
    if !text.contains('%') {
        return Ok(text.to_owned());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b != b'%' {
            out.push(b);
            continue;
        }
        let mut digit = || bytes.next().and_then(|d| char::from(d).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => out.push((high * 16 + low) as u8),
            _ => {
                return Err(format!(
                    "`{text}`: `%` must be followed by two hex digits (a `%` itself is %25)"
                ));
            }
        }
    }
    String::from_utf8(out).map_err(|_| format!("`{text}` is not UTF-8 when decoded"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> PortUri {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    fn refusal(text: &str) -> String {
        text.parse::<PortUri>().expect_err("must be refused").to_string()
    }

    #[test]
    fn the_forms_of_the_documentation() {
        let uri = parse("xdp:eth0?queue=1&mode=copy");
        assert_eq!((uri.scheme.as_str(), uri.target.as_str()), ("xdp", "eth0"));
        assert_eq!(uri.options["queue"], "1");
        assert_eq!(uri.options["mode"], "copy");
        assert_eq!(parse("packet:eth0"), PortUri::new("packet", "eth0"));
        assert_eq!(parse("dpdk:0000:3b:00.0").target, "0000:3b:00.0");
        assert_eq!(parse("unix:MINE.sock,THEIRS.sock").target, "MINE.sock,THEIRS.sock");
        assert_eq!(parse("pcap:?out=x.pcap"), PortUri::new("pcap", "").with("out", "x.pcap"));
        let uri = parse("trace+fault+xdp:eth0?loss=0.01&seed=7");
        let names: Vec<_> = uri.wrappers.iter().map(|w| w.name.as_str()).collect();
        assert_eq!(names, ["trace", "fault"]);
    }

    #[test]
    fn options_are_taken_once_and_the_rest_is_refused() {
        let mut uri = parse("fault+xdp:eth0?loss=0.25&seed=7&queeu=1&flag=on");
        assert_eq!(uri.take::<f64>("loss").unwrap(), Some(0.25));
        assert_eq!(uri.take_or("seed", 1u64).unwrap(), 7);
        assert_eq!(uri.take_or("queue", 0u16).unwrap(), 0);
        assert!(uri.take_flag("flag").unwrap());
        assert!(!uri.take_flag("flag").unwrap());
        let why = uri.finish().unwrap_err().to_string();
        assert!(why.contains("unknown option `queeu`; did you mean `queue`?"), "{why}");
        assert!(why.contains("known: flag, loss, queue, seed"), "{why}");
        assert!(why.contains("xdp:eth0?loss=0.25&seed=7&queeu=1"), "the whole text is shown: {why}");
    }

    #[test]
    fn values_that_do_not_parse_name_the_option() {
        let why = parse("xdp:eth0?queue=x").take::<u16>("queue").unwrap_err().to_string();
        assert!(why.contains("option `queue=x`: invalid digit"), "{why}");
        let modes = [("copy", 1), ("zerocopy", 2)];
        let why = parse("xdp:eth0?mode=zero").take_choice("mode", &modes).unwrap_err().to_string();
        assert!(why.contains("did you mean `zerocopy`?"), "{why}");
        assert_eq!(parse("xdp:eth0?mode=copy").take_choice("mode", &modes).unwrap(), Some(1));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(refusal("eth0").contains("packet:eth0"));
        assert!(refusal("pakcet:eth0").contains("did you mean `packet`?"));
        assert!(refusal("fualt+mem:a").contains("did you mean `fault`?"));
        assert!(refusal("fault:a").contains("is a wrapper"));
        assert!(refusal("fault+fault+mem:a").contains("named twice"));
        assert!(refusal("mem:").contains("needs a target"));
        assert!(refusal("mem:a?x").contains("has no value"));
        assert!(refusal("mem:a?=1").contains("has no name"));
        assert!(refusal("mem:a?x=1&x=2").contains("given twice"));
        assert!(refusal("mem:a%2").contains("two hex digits"));
        assert!(refusal("mem:%ff").contains("not UTF-8"));
        assert!(refusal("").contains("no `:`"));
    }

    #[test]
    fn special_characters_survive() {
        let uri = PortUri::new("pcap", "a?b&c=d%e+f").with("out", "1+1=2");
        let text = uri.to_string();
        assert_eq!(text, "pcap:a%3Fb%26c%3Dd%25e%2Bf?out=1%2B1%3D2");
        assert_eq!(parse(&text), uri);
        assert_eq!(parse("pcap:a+b.pcap").target, "a+b.pcap");
    }

    proptest! {
        #[test]
        fn display_then_parse_is_the_same(
            scheme in proptest::sample::select(SCHEMES),
            wrapped in 0usize..3,
            target in "[a-z?&=%+:/é]{1,12}",
            options in proptest::collection::btree_map("[a-z?&=%+]{1,6}", "[ -~]{0,8}", 0..4),
        ) {
            let mut uri = PortUri::new(scheme, &target);
            uri.wrappers = WRAPPERS[..wrapped].iter().map(|n| Wrapper { name: (*n).into() }).collect();
            uri.options = options;
            let text = uri.to_string();
            prop_assert_eq!(text.parse::<PortUri>().unwrap(), uri);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            if let Ok(uri) = text.parse::<PortUri>() {
                prop_assert_eq!(uri.to_string().parse::<PortUri>().unwrap(), uri);
            }
        }

        #[test]
        fn no_text_like_a_uri_panics(text in "(fault\\+|trace\\+|x\\+)?(mem|pcap|xdp):[a%2:?&=]{0,12}") {
            if let Ok(uri) = text.parse::<PortUri>() {
                prop_assert_eq!(uri.to_string().parse::<PortUri>().unwrap(), uri);
            }
        }
    }
}
