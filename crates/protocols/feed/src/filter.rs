//! The white-list: which instruments a channel handles at all.

use crate::instrument::Instrument;

/// Instruments wanted, by any of four names; an instrument that matches one of them is handled. An empty list wants
/// everything. What is not wanted costs one look-up in the instrument table and no more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhiteList {
    ids: Vec<i32>,
    symbols: Vec<String>,
    groups: Vec<String>,
    assets: Vec<String>,
}

impl WhiteList {
    /// A list that wants everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wants the instrument with this security id, with or without a definition.
    pub fn id(mut self, id: i32) -> Self {
        if !self.ids.contains(&id) {
            self.ids.push(id);
        }
        self
    }

    /// Wants the instrument with this symbol (tag 55). Needs definitions, as groups and assets do.
    pub fn symbol(mut self, symbol: &str) -> Self {
        self.symbols.push(symbol.to_owned());
        self
    }

    /// Wants all instruments of a security group (tag 1151).
    pub fn group(mut self, group: &str) -> Self {
        self.groups.push(group.to_owned());
        self
    }

    /// Wants all instruments of an asset (tag 6937).
    pub fn asset(mut self, asset: &str) -> Self {
        self.assets.push(asset.to_owned());
        self
    }

    /// Whether everything is wanted.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.symbols.is_empty() && self.groups.is_empty() && self.assets.is_empty()
    }

    /// The security ids listed.
    pub fn ids(&self) -> &[i32] {
        &self.ids
    }

    /// Whether a defined instrument is wanted.
    pub fn admits(&self, instrument: &Instrument) -> bool {
        let named = |list: &[String], name: &str| list.iter().any(|n| n == name);
        self.is_empty()
            || self.ids.contains(&instrument.security_id)
            || named(&self.symbols, instrument.symbol.as_str())
            || named(&self.groups, instrument.group.as_str())
            || named(&self.assets, instrument.asset.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instrument::Text;

    #[test]
    fn any_of_the_four_names_admits() {
        let it = Instrument {
            symbol: Text::new(b"ESZ6"),
            group: Text::new(b"ES"),
            asset: Text::new(b"ES"),
            ..Instrument::undefined(7, 10, 2)
        };
        assert!(WhiteList::new().admits(&it));
        assert!(WhiteList::new().id(7).admits(&it));
        assert!(WhiteList::new().id(8).symbol("ESZ6").admits(&it));
        assert!(WhiteList::new().group("ES").admits(&it));
        assert!(WhiteList::new().asset("NQ").asset("ES").admits(&it));
        assert!(!WhiteList::new().id(8).symbol("ESZ").group("E").asset("NQ").admits(&it));
        assert_eq!(WhiteList::new().id(8).id(8).ids(), [8]);
    }
}
