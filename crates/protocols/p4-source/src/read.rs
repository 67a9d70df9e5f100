//! From a file to checked types in one go.

use crate::{Diagnostics, Options, Resolver, SourceMap, ast, parse, types};

/// What was read of P4 source, and what was made of it.
pub struct Read<T> {
    /// Its files, for messages.
    pub map: SourceMap,
    /// What was found wrong.
    pub found: Diagnostics,
    /// What `then` made of it; `None` when it could not even be parsed.
    pub made: Option<T>,
}

/// Reads P4 source and checks its types; what could be parsed goes to `then`, which asks `found` whether it was accepted.
pub fn read<T>(
    files: &dyn Resolver,
    options: &Options,
    path: &str,
    then: impl FnOnce(&ast::Program, &types::Typed<'_>, &SourceMap, &mut Diagnostics) -> T,
) -> Read<T> {
    let (mut map, mut found) = (SourceMap::new(), Diagnostics::new());
    let source = parse(&mut map, files, options, path, &mut found);
    let mut made = None;
    if found.error_count() == 0 {
        let typed = types::check(&source, &map, &mut found);
        made = Some(then(&source, &typed, &map, &mut found));
    }
    Read { map, found, made }
}
