//! Which names are types: the grammar depends on it (section 6.4.3.1, and the notes of the appendix on the grammar).
use crate::lex::Sym;

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// A type, a type parameter; a parser, control, package, extern.
    Type,
    /// Anything else, known or not.
    Value,
}

/// Names by number, and what is to be undone at the end of each scope.
#[derive(Debug)]
pub(crate) struct Scopes {
    now: Vec<What>,
    undo: Vec<(Sym, What)>,
    starts: Vec<usize>,
}

/// A moment: which scopes were open.
#[derive(Clone, Copy)]
pub(crate) struct Mark(usize);

impl Scopes {
    /// For so many names.
    pub fn new(names: usize) -> Scopes {
        Scopes { now: vec![What::Value; names], undo: Vec::new(), starts: Vec::new() }
    }

    pub fn what(&self, name: Sym) -> What {
        self.now.get(name.0 as usize).copied().unwrap_or(What::Value)
    }

    /// What a name stands for at the top level.
    pub fn what_global(&self, name: Sym) -> What {
        let start = self.starts.first().copied().unwrap_or(self.undo.len());
        // The oldest change inside says what was outside.
        let changed = self.undo[start..].iter().find(|(changed, _)| *changed == name);
        changed.map_or_else(|| self.what(name), |(_, before)| *before)
    }

    pub fn declare(&mut self, name: Sym, what: What) {
        if let Some(now) = self.now.get_mut(name.0 as usize) {
            self.undo.push((name, *now));
            *now = what;
        }
    }

    pub fn enter(&mut self) {
        self.starts.push(self.undo.len());
    }

    pub fn leave(&mut self) {
        let start = self.starts.pop().unwrap_or(0);
        for (name, what) in self.undo.drain(start..).rev() {
            self.now[name.0 as usize] = what;
        }
    }

    pub fn mark(&self) -> Mark {
        Mark(self.starts.len())
    }

    /// Leaves scopes that an error left open.
    pub fn back_to(&mut self, mark: Mark) {
        while self.starts.len() > mark.0 {
            self.leave();
        }
    }

    /// Names that are types now.
    pub fn types(&self) -> impl Iterator<Item = Sym> + '_ {
        (0..).zip(&self.now).filter(|(_, what)| **what == What::Type).map(|(number, _)| Sym(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_hides_and_gives_back() {
        let mut scopes = Scopes::new(3);
        scopes.declare(Sym(1), What::Type);
        scopes.enter();
        scopes.declare(Sym(1), What::Value);
        scopes.declare(Sym(2), What::Type);
        let mark = scopes.mark();
        scopes.enter();
        scopes.declare(Sym(1), What::Type);
        assert_eq!(scopes.what(Sym(1)), What::Type);
        assert_eq!(scopes.what_global(Sym(1)), What::Type);
        assert_eq!(scopes.what_global(Sym(2)), What::Value);
        scopes.back_to(mark);
        assert_eq!((scopes.what(Sym(1)), scopes.what(Sym(2))), (What::Value, What::Type));
        scopes.leave();
        assert_eq!((scopes.what(Sym(1)), scopes.what(Sym(2))), (What::Type, What::Value));
        assert_eq!(scopes.types().collect::<Vec<_>>(), [Sym(1)]);
        assert_eq!(scopes.what(Sym(9)), What::Value);
    }
}
