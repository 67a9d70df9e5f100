//! Lines of a test become commands.

use super::lexer::{Token, tokens};
use super::{
    ActionText, Command, Comparison, CounterIndex, CounterUnit, KeyValue, Line, MAX_PACKET, MeterRate,
    Number, Pattern, StfError, StfErrorKind,
};
use barewire_text::nearest;
use num_traits::ToPrimitive;

const COMMANDS: &[&str] = &[
    "add",
    "check_counter",
    "counter_read",
    "counter_write",
    "expect",
    "mc_mgrp_create",
    "mc_node_associate",
    "mc_node_create",
    "mc_node_update",
    "meter_array_set_rates",
    "meter_get_rates",
    "meter_set_rates",
    "mirroring_add",
    "mirroring_add_mc",
    "mirroring_delete",
    "mirroring_get",
    "no_packet",
    "packet",
    "register_read",
    "register_reset",
    "register_write",
    "remove",
    "setdefault",
    "wait",
];

/// Read a test. The first mistake ends it.
pub fn parse(text: &str) -> Result<Vec<Line>, StfError> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let word = line.trim_start();
        let begin = line.chars().count() - word.chars().count();
        if word.is_empty() || word.starts_with('#') {
            continue;
        }
        let word: String = word.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let name = word.to_ascii_lowercase();
        let behind = begin + word.chars().count();
        let command = match name.as_str() {
            "packet" | "expect" => data_line(&name, line, number, behind)?,
            name if COMMANDS.contains(&name) => {
                let mut rest = Rest { tokens: tokens(line, number, behind)?, at: 0, line: number };
                let command = rest.command(name)?;
                rest.end()?;
                command
            }
            _ => {
                let found = if word.is_empty() { line.trim().chars().take(1).collect() } else { word };
                let nearest = nearest(&name, COMMANDS.iter().copied()).map(str::to_owned);
                let kind = StfErrorKind::Command { found, nearest };
                return Err(StfError { line: number, column: begin as u32 + 1, kind });
            }
        };
        lines.push(Line { number, command });
    }
    Ok(lines)
}

/// `packet` and `expect`: a decimal port, then hexadecimal digits with blanks anywhere.
fn data_line(name: &str, line: &str, number: u32, from: usize) -> Result<Command, StfError> {
    let chars: Vec<char> = line.chars().collect();
    let end = chars.iter().position(|&c| c == '#').unwrap_or(chars.len());
    let fail = |at: usize, kind| StfError { line: number, column: at as u32 + 1, kind };
    let expected = |at: usize, expected: &str| {
        let found = if at < end { format!("'{}'", chars[at]) } else { "the end of the line".to_owned() };
        fail(at, StfErrorKind::Expected { expected: expected.to_owned(), found })
    };
    let mut at = from;
    while at < end && chars[at].is_whitespace() {
        at += 1;
    }
    let begin = at;
    while at < end && chars[at].is_ascii_digit() {
        at += 1;
    }
    if begin == at || at < end && !chars[at].is_whitespace() {
        return Err(expected(at, "a port (decimal)"));
    }
    let port: String = chars[begin..at].iter().collect();
    let too_large = StfErrorKind::TooLarge { found: port.clone(), most: u64::from(u32::MAX) };
    let port: u32 = port.parse().map_err(|_| fail(begin, too_large))?;
    let mut nibbles = Vec::new();
    let mut exact = false;
    for (at, &c) in chars.iter().enumerate().take(end).skip(at) {
        match c {
            c if c.is_whitespace() => {}
            _ if exact => return Err(expected(at, "nothing behind '$'")),
            '*' if name == "expect" => nibbles.push(None),
            '$' if name == "expect" => exact = true,
            c => {
                let digit = c.to_digit(16).ok_or_else(|| {
                    let kinds = if name == "expect" {
                        "a hexadecimal digit, '*' or '$'"
                    } else {
                        "a hexadecimal digit"
                    };
                    expected(at, kinds)
                })?;
                nibbles.push(Some(digit as u8));
            }
        }
    }
    if nibbles.len() > 2 * MAX_PACKET {
        return Err(fail(begin, StfErrorKind::TooLong));
    }
    if name == "expect" {
        let pattern = (exact || !nibbles.is_empty()).then_some(Pattern { nibbles, exact });
        return Ok(Command::Expect { port, pattern });
    }
    if nibbles.is_empty() {
        return Err(expected(end, "the bytes of a packet"));
    }
    if !nibbles.len().is_multiple_of(2) {
        return Err(fail(begin, StfErrorKind::OddDigits));
    }
    let nibble = |nibble: &Option<u8>| nibble.unwrap_or(0);
    let bytes = nibbles.chunks(2).map(|pair| nibble(&pair[0]) << 4 | nibble(&pair[1])).collect();
    Ok(Command::Packet { port, bytes })
}

struct Rest {
    tokens: Vec<(Token, u32)>,
    at: usize,
    line: u32,
}

impl Rest {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        if token != Token::End {
            self.at += 1;
        }
        token
    }

    fn fail<T>(&self, expected: &str) -> Result<T, StfError> {
        let (found, column) = &self.tokens[self.at];
        let kind = StfErrorKind::Expected { expected: expected.to_owned(), found: found.describe() };
        Err(StfError { line: self.line, column: *column, kind })
    }

    fn is(&mut self, sign: &str) -> bool {
        let is = matches!(self.peek(), Token::Sign(found) if *found == sign);
        if is {
            self.next();
        }
        is
    }

    fn sign(&mut self, sign: &str) -> Result<(), StfError> {
        if self.is(sign) { Ok(()) } else { self.fail(&format!("'{sign}'")) }
    }

    fn end(&self) -> Result<(), StfError> {
        if *self.peek() == Token::End { Ok(()) } else { self.fail("the end of the line") }
    }

    fn word(&mut self, what: &str) -> Result<String, StfError> {
        match self.peek().clone() {
            Token::Name(name) => {
                self.next();
                Ok(name)
            }
            _ => self.fail(what),
        }
    }

    /// A name of parts with dots and indices. `$3` behind a part is `[3]`.
    fn name(&mut self, what: &str) -> Result<String, StfError> {
        let mut name = self.word(what)?;
        loop {
            if self.is("[") {
                let index = self.small("an index")?;
                self.sign("]")?;
                name.push_str(&format!("[{index}]"));
            } else if self.is(".") {
                name.push('.');
                name.push_str(&self.word("a name behind '.'")?);
            } else {
                return Ok(name);
            }
        }
    }

    fn number(&mut self, what: &str) -> Result<Number, StfError> {
        match self.peek().clone() {
            Token::Number(number) => {
                self.next();
                Ok(number)
            }
            _ => self.fail(what),
        }
    }

    fn small(&mut self, what: &str) -> Result<u64, StfError> {
        let column = self.tokens[self.at].1;
        let number = self.number(what)?;
        if number.has_wildcards() {
            let kind = StfErrorKind::Expected { expected: what.to_owned(), found: format!("'{number}'") };
            return Err(StfError { line: self.line, column, kind });
        }
        let kind = StfErrorKind::TooLarge { found: number.to_string(), most: u64::MAX };
        number.value().to_u64().ok_or(StfError { line: self.line, column, kind })
    }

    fn numbers(&mut self, what: &str) -> Result<Vec<u64>, StfError> {
        let mut numbers = vec![self.small(what)?];
        while *self.peek() != Token::End {
            numbers.push(self.small(what)?);
        }
        Ok(numbers)
    }

    fn action(&mut self) -> Result<ActionText, StfError> {
        let name = self.name("an action")?;
        self.action_args(name)
    }

    fn action_args(&mut self, name: String) -> Result<ActionText, StfError> {
        self.sign("(")?;
        let mut args = Vec::new();
        if !self.is(")") {
            loop {
                let arg = self.name("a parameter or ')'")?;
                self.sign(":")?;
                args.push((arg, self.number("a value")?));
                if self.is(")") {
                    break;
                }
                if !self.is(",") {
                    return self.fail("',' or ')'");
                }
            }
        }
        Ok(ActionText { name, args })
    }

    fn key_value(&mut self) -> Result<KeyValue, StfError> {
        let first = self.number("a value")?;
        Ok(if self.is("/") {
            KeyValue::Prefix(first, self.number("a prefix length")?)
        } else if self.is("&&&") {
            KeyValue::Masked(first, self.number("a mask")?)
        } else if self.is("->") {
            KeyValue::Range(first, self.number("the range's end")?)
        } else {
            KeyValue::Number(first)
        })
    }

    fn add(&mut self) -> Result<Command, StfError> {
        let table = self.name("a table")?;
        let column = self.tokens[self.at].1;
        let priority = match self.peek() {
            Token::Number(_) => {
                let number = self.small("a priority")?;
                let kind = StfErrorKind::TooLarge { found: number.to_string(), most: u64::from(u32::MAX) };
                Some(u32::try_from(number).map_err(|_| StfError { line: self.line, column, kind })?)
            }
            _ => None,
        };
        let mut key = Vec::new();
        let action = loop {
            let name = self.name("a key field or an action")?;
            if self.is(":") {
                key.push((name, self.key_value()?));
            } else if matches!(self.peek(), Token::Sign("(")) {
                break self.action_args(name)?;
            } else {
                return self.fail("':' (of a key field) or '(' (of an action)");
            }
        };
        let id = if self.is("=") { Some(self.word("a name for the entry")?) } else { None };
        Ok(Command::Add { table, priority, key, action, id })
    }

    fn check_counter(&mut self) -> Result<Command, StfError> {
        let counter = self.name("a counter")?;
        self.sign("(")?;
        let index = match self.peek() {
            Token::Name(_) => CounterIndex::Entry(self.word("an index")?.trim_start_matches('$').to_owned()),
            _ => CounterIndex::Index(self.small("an index or an entry's name")?),
        };
        self.sign(")")?;
        if *self.peek() == Token::End {
            return Ok(Command::CheckCounter { counter, index, check: None });
        }
        let what = "'packets' or 'bytes'";
        let unit = match self.peek() {
            Token::Name(name) if name.eq_ignore_ascii_case("packets") => CounterUnit::Packets,
            Token::Name(name) if name.eq_ignore_ascii_case("bytes") => CounterUnit::Bytes,
            _ => return self.fail(what),
        };
        self.next();
        let comparison = match self.peek() {
            Token::Sign("==") => Comparison::Equal,
            Token::Sign("!=") => Comparison::NotEqual,
            Token::Sign("<") => Comparison::Less,
            Token::Sign("<=") => Comparison::LessOrEqual,
            Token::Sign(">") => Comparison::Greater,
            Token::Sign(">=") => Comparison::GreaterOrEqual,
            _ => return self.fail("'==', '!=', '<', '<=', '>' or '>='"),
        };
        self.next();
        Ok(Command::CheckCounter { counter, index, check: Some((unit, comparison, self.small("a number")?)) })
    }

    fn rates(&mut self) -> Result<Vec<MeterRate>, StfError> {
        let mut rates = Vec::new();
        loop {
            let column = self.tokens[self.at].1;
            let mut text = self.number("a rate")?.digits;
            if self.is(".") {
                text = format!("{text}.{}", self.number("the rate's fraction")?.digits);
            }
            let kind = StfErrorKind::Expected { expected: "a decimal rate".to_owned(), found: text.clone() };
            let per_us = text.parse().map_err(|_| StfError { line: self.line, column, kind })?;
            self.sign(":")?;
            rates.push(MeterRate { per_us, burst: self.small("a burst size")? });
            if *self.peek() == Token::End {
                return Ok(rates);
            }
        }
    }

    fn command(&mut self, name: &str) -> Result<Command, StfError> {
        Ok(match name {
            "add" => self.add()?,
            "setdefault" => {
                let table = self.name("a table")?;
                Command::SetDefault { table, action: self.action()? }
            }
            "remove" => match self.peek() {
                Token::Name(all) if all.eq_ignore_ascii_case("all") => {
                    self.next();
                    Command::RemoveAll
                }
                _ => return self.fail("'all'"),
            },
            "no_packet" => Command::NoPacket,
            "wait" => Command::Wait,
            "check_counter" => self.check_counter()?,
            "mirroring_add" => {
                Command::MirroringAdd { session: self.small("a session")?, port: self.small("a port")? }
            }
            "mirroring_add_mc" => {
                Command::MirroringAddMc { session: self.small("a session")?, group: self.small("a group")? }
            }
            "mirroring_delete" => Command::MirroringDelete(self.small("a session")?),
            "mirroring_get" => Command::MirroringGet(self.small("a session")?),
            "mc_mgrp_create" => Command::McGroupCreate(self.small("a group")?),
            "mc_node_create" => {
                Command::McNodeCreate { rid: self.small("a replication id")?, ports: self.numbers("a port")? }
            }
            "mc_node_update" => {
                Command::McNodeUpdate { node: self.small("a node")?, ports: self.numbers("a port")? }
            }
            "mc_node_associate" => {
                Command::McNodeAssociate { group: self.small("a group")?, node: self.small("a node")? }
            }
            "counter_read" => {
                Command::CounterRead { counter: self.name("a counter")?, index: self.small("an index")? }
            }
            "counter_write" => Command::CounterWrite {
                counter: self.name("a counter")?,
                index: self.small("an index")?,
                packets: self.small("packets")?,
                bytes: self.small("bytes")?,
            },
            "register_read" => {
                Command::RegisterRead { register: self.name("a register")?, index: self.small("an index")? }
            }
            "register_write" => Command::RegisterWrite {
                register: self.name("a register")?,
                index: self.small("an index")?,
                value: self.number("a value")?.value(),
            },
            "register_reset" => Command::RegisterReset(self.name("a register")?),
            "meter_get_rates" => {
                Command::MeterGetRates { meter: self.name("a meter")?, index: self.small("an index")? }
            }
            "meter_set_rates" => Command::MeterSetRates {
                meter: self.name("a meter")?,
                index: self.small("an index")?,
                rates: self.rates()?,
            },
            "meter_array_set_rates" => {
                Command::MeterArraySetRates { meter: self.name("a meter")?, rates: self.rates()? }
            }
            _ => return self.fail("a command"),
        })
    }
}
