//! By clause of the specification; "Appendix" is the grammar.
use crate::ast::*;
use crate::diag::{Diagnostics, Style, render_all};
use crate::pp::Options;
use crate::resolve::MemoryFiles;
use crate::source::SourceMap;

fn read(text: &str) -> (Program, SourceMap, Diagnostics) {
    let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
    let files = MemoryFiles::one("a.p4", text);
    let program = super::parse(&mut map, &files, &Options::default(), "a.p4", &mut diags);
    (program, map, diags)
}

fn good(text: &str) -> Program {
    let (program, map, diags) = read(text);
    assert_eq!(diags.error_count(), 0, "{text}\n{}", render_all(&map, &diags, Style::Plain));
    program
}

/// Messages as `line:column message`.
fn errors(text: &str) -> Vec<String> {
    let (_, map, diags) = read(text);
    let line = |d: &crate::diag::Diagnostic| {
        let place = map.place(d.span()).unwrap();
        format!("{}:{} {}", place.at.line, place.at.column, d.message)
    };
    diags.iter().map(line).collect()
}

fn error(text: &str) -> String {
    errors(text).into_iter().next().unwrap_or_else(|| panic!("no error: {text}"))
}

fn show_type(ty: &Type) -> String {
    let list = |l: &[Type]| l.iter().map(show_type).collect::<Vec<_>>().join(", ");
    let name = |n: &TypeName| format!("{}{}", if n.absolute { "." } else { "" }, n.name);
    match &ty.kind {
        TypeKind::Bool => "bool".into(),
        TypeKind::Error => "error".into(),
        TypeKind::MatchKind => "match_kind".into(),
        TypeKind::String => "string".into(),
        TypeKind::Void => "void".into(),
        TypeKind::Integer => "int".into(),
        TypeKind::Bit(None) => "bit".into(),
        TypeKind::Bit(Some(w)) => format!("bit<{}>", show(w)),
        TypeKind::Int(w) => format!("int<{}>", show(w)),
        TypeKind::Varbit(w) => format!("varbit<{}>", show(w)),
        TypeKind::Name(n) => name(n),
        TypeKind::Specialized(n, args) => format!("{}<{}>", name(n), list(args)),
        TypeKind::Stack(t, n) => format!("{}[{}]", show_type(t), show(n)),
        TypeKind::List(t) => format!("list<{}>", show_type(t)),
        TypeKind::Tuple(args) => format!("tuple<{}>", list(args)),
        TypeKind::DontCare => "_".into(),
    }
}

/// With all parentheses.
fn show(e: &Expr) -> String {
    let dots = |rest: &Option<crate::source::Span>, any: bool| match rest {
        Some(_) if any => ", ...",
        Some(_) => "...",
        None => "",
    };
    match &e.kind {
        ExprKind::Int(i) => match i.width {
            Some(w) => format!("{}{}{}", w.bits, if w.signed { "s" } else { "w" }, i.value),
            None => i.value.to_string(),
        },
        ExprKind::String(s) => format!("{s:?}"),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::This => "this".into(),
        ExprKind::Path { absolute, name } => format!("{}{name}", if *absolute { "." } else { "" }),
        ExprKind::Type(t) => show_type(t),
        ExprKind::Member(b, n) => format!("{}.{n}", show(b)),
        ExprKind::Index(b, i) => format!("{}[{}]", show(b), show(i)),
        ExprKind::Slice { base, high, low } => format!("{}[{}:{}]", show(base), show(high), show(low)),
        ExprKind::PlusSlice { base, low, width } => format!("{}[{}+:{}]", show(base), show(low), show(width)),
        ExprKind::Unary(op, a) => format!("({}{})", op.text(), show(a)),
        ExprKind::Binary(op, a, b) => format!("({} {} {})", show(a), op.text(), show(b)),
        ExprKind::Conditional(a, b, c) => format!("({} ? {} : {})", show(a), show(b), show(c)),
        ExprKind::Cast(t, a) => format!("(({}) {})", show_type(t), show(a)),
        ExprKind::Call(c) => {
            let types: Vec<String> = c.type_args.iter().map(show_type).collect();
            let types = if types.is_empty() { String::new() } else { format!("<{}>", types.join(", ")) };
            let arg = |a: &Arg| match &a.name {
                Some(n) => format!("{n} = {}", show(&a.value)),
                None => show(&a.value),
            };
            format!("{}{types}({})", show(&c.callee), c.args.iter().map(arg).collect::<Vec<_>>().join(", "))
        }
        ExprKind::List { items, rest } => {
            let inner: Vec<String> = items.iter().map(show).collect();
            format!("{{{}{}}}", inner.join(", "), dots(rest, !items.is_empty()))
        }
        ExprKind::Struct { fields, rest } => {
            let inner: Vec<String> =
                fields.iter().map(|f| format!("{} = {}", f.key, show(&f.value))).collect();
            format!("{{{}{}}}", inner.join(", "), dots(rest, !fields.is_empty()))
        }
        ExprKind::Invalid => "{#}".into(),
        ExprKind::Default => "...".into(),
        ExprKind::DontCare => "_".into(),
        ExprKind::Error => "<error>".into(),
    }
}

const TYPES: &str = "header H { bit<8> f; } struct S { H h; } enum E { A } extern X<T> { X(bit<8> n); T get(); } typedef bit<8> T; ";

fn expr(text: &str) -> String {
    let program = good(&format!("{TYPES}const T x = {text};"));
    match &program.decls.last().unwrap().kind {
        DeclKind::Const(c) => show(&c.value),
        other => panic!("{other:?}"),
    }
}

/// 8, and the precedences of the appendix.
#[test]
fn operators_bind_as_in_the_table() {
    for (text, wanted) in [
        ("a || b && c == d", "(a || (b && (c == d)))"),
        ("a == b < c", "(a == (b < c))"),
        ("a < b | c ^ d & e << f ++ g * h", "(a < (b | (c ^ (d & (e << (f ++ (g * h)))))))"),
        ("a - b - c", "((a - b) - c)"),
        ("a >> b >> c", "((a >> b) >> c)"),
        ("a |+| b |-| c", "((a |+| b) |-| c)"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a ? b ? c : d : e", "(a ? (b ? c : d) : e)"),
        ("-a.b[1]", "(-a.b[1])"),
        ("!a && ~b == +c", "((!a) && ((~b) == (+c)))"),
        ("- - 1", "(-(-1))"),
        ("(a + b) * c", "((a + b) * c)"),
        ("a / b % c", "((a / b) % c)"),
        ("a != b >= c", "(a != (b >= c))"),
        ("a > b", "(a > b)"),
    ] {
        assert_eq!(expr(text), wanted, "{text}");
    }
}

/// 6.4.3.2, 6.4.3.3
#[test]
fn literals() {
    for (text, wanted) in [
        ("32w0xFF", "32w255"),
        ("8s0b1010_1010", "8s170"),
        ("0o17", "15"),
        ("1_000", "1000"),
        ("true", "true"),
        (r#""a\"b" ++ "c""#, r#"("a\"b" ++ "c")"#),
        ("0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "22300745198530623141535718272648361505980415"),
    ] {
        assert_eq!(expr(text), wanted, "{text}");
    }
    assert!(error("const bit<8> x = 99999999999w1;").contains("too large"));
    assert!(error("const bit<8> x = 0b12;").contains("`0b12`, which is no integer"));
}

/// 8.11, 8.12, 8.14 to 8.17
#[test]
fn postfix_casts_and_lists() {
    for (text, wanted) in [
        ("(T) a + b", "(((T) a) + b)"),
        ("(bit<8>)(bit<4>) a.b", "((bit<8>) ((bit<4>) a.b))"),
        ("(T) -a", "((T) (-a))"),
        ("(a)", "a"),
        ("(a) - b", "(a - b)"),
        ("(E.A)", "E.A"),
        ("(E.A == x)", "(E.A == x)"),
        ("(X<T>(1).get())", "X<T>(1).get()"),
        ("error.NoError", "error.NoError"),
        ("a[7:0]", "a[7:0]"),
        ("a[i + 1 +: 8]", "a[(i + 1)+:8]"),
        ("a[i ? 1 : 0]", "a[(i ? 1 : 0)]"),
        ("a[b[1]][2].c", "a[b[1]][2].c"),
        ("f<T>(1)", "f<T>(1)"),
        ("f<bit<8>, tuple<T, list<S>>>(a, b = _, _)", "f<bit<8>, tuple<T, list<S>>>(a, b = _, _)"),
        ("f<_>(1)", "f<_>(1)"),
        ("a.f<void, U>(1)", "a.f<void, U>(1)"),
        ("a < b", "(a < b)"),
        ("a < (b) > c", "((a < b) > c)"),
        ("a < E.A", "(a < E.A)"),
        ("X<bit<8>>(4)", "X<bit<8>>(4)"),
        (".a.b", ".a.b"),
        (".E.A", ".E.A"),
        ("{}", "{}"),
        ("{1, 2, }", "{1, 2}"),
        ("{1, ...}", "{1, ...}"),
        ("{...}", "{...}"),
        ("{a = 1, b = {2, 3}, }", "{a = 1, b = {2, 3}}"),
        ("{a = 1, ...}", "{a = 1, ...}"),
        ("{key = 1, apply = 2}", "{key = 1, apply = 2}"),
        ("{#}", "{#}"),
        ("(S) {1, 2}", "((S) {1, 2})"),
        ("...", "..."),
        ("this.f(1)", "this.f(1)"),
        ("list + key + state", "((list + key) + state)"),
    ] {
        if text.starts_with("list") {
            // `list` is a name, but no value by the grammar.
            assert!(error(&format!("{TYPES}const T x = {text};")).contains("list"));
            continue;
        }
        assert_eq!(expr(text), wanted, "{text}");
    }
}

/// 7: types nest, and `>>` closes two.
#[test]
fn types() {
    for text in [
        "bool",
        "int",
        "bit",
        "bit<8>",
        "bit<(1 + 2)>",
        "int<16>",
        "varbit<320>",
        "error",
        "match_kind",
        "string",
        "T",
        ".T",
        "H[4]",
        "X<bit<8>>",
        "X<X<X<T>>>",
        "X<tuple<T, bit<8>>>[3]",
        "list<tuple<T>>",
        "tuple<>",
        "bit<8>[16]",
        "X<_>",
    ] {
        let program = good(&format!("{TYPES}control c() {{ {text} x; apply {{}} }}"));
        let DeclKind::Control(control) = &program.decls.last().unwrap().kind else { panic!() };
        let DeclKind::Variable(variable) = &control.locals[0].kind else { panic!() };
        assert_eq!(show_type(&variable.ty), text);
    }
    assert_eq!(error("struct S { foo x; }"), "1:12 expected a type, found `foo`");
    good(
        "const bit<2 + 2> a = 5; const bit<a < 3 ? 5 : 4> b = 6; typedef bit<b[7:0]-a> t; typedef bit<(a > b ? 1 : 2)> u;",
    );
    good(
        "extern T f<T>(in T x); action a(bit<5> x) { f<bit<b ^ 3>>(x); f<tuple<bit<b>, int<f(b > 1)>>>({x, 1}); }",
    );
    assert!(error("struct S { bit<> y; }").contains("expected an expression, found `>`"));
}

/// 7.2
#[test]
fn type_declarations() {
    let program = good(
        "header H<T> { @a T f; varbit<8> v; } header_union U { H<bit<8>> h; } struct S {} enum E { A, @x B, }
         enum bit<8> F { A = 1, B = 2, } error { X, Y } match_kind { m, n, } typedef bit<8> T; type T N; typedef struct Q { T a; } R;
         parser p<A>(in A a); control c(inout S s = {}); package P<A>(p<A> x, @optional c y); ;",
    );
    let names: Vec<String> =
        program.decls.iter().map(|d| d.name().map_or("-".into(), ToString::to_string)).collect();
    assert_eq!(names, ["H", "U", "S", "E", "F", "-", "-", "T", "N", "R", "p", "c", "P"]);
    let DeclKind::Struct(h) = &program.decls[0].kind else { panic!() };
    assert_eq!(
        (h.kind, h.type_params.len(), h.fields.len(), h.fields[0].annotations.len()),
        (StructKind::Header, 1, 2, 1)
    );
    let DeclKind::Typedef(n) = &program.decls[8].kind else { panic!() };
    assert!(n.is_new);
    let DeclKind::PackageType(p) = &program.decls[12].kind else { panic!() };
    assert_eq!(p.params[1].annotations[0].name.as_str(), "optional");
}

/// 7.2.9, 10.3
#[test]
fn externs() {
    let program = good(
        "extern T f<T>(in T x, @optional in bit<8> y = 3); extern E<T> { E(); E(bit<8> n); T get<U>(in U u); abstract void run(in T t);
         @pure void apply(); } extern void g(); extern Fwd; extern Fwd2 {} bit<8> h(in bit<8> a) { return a; }
         E<bit<8>>(4) e = { void run(in bit<8> t) { return; } E<bit<8>>() inner; };",
    );
    let DeclKind::Extern(e) = &program.decls[1].kind else { panic!() };
    let shapes: Vec<(&str, bool, bool)> =
        e.methods.iter().map(|m| (m.proto.name.as_str(), m.is_constructor(), m.is_abstract)).collect();
    let wanted = [
        ("E", true, false),
        ("E", true, false),
        ("get", false, false),
        ("run", false, true),
        ("apply", false, false),
    ];
    assert_eq!(shapes, wanted);
    let DeclKind::Instance(instance) = &program.decls.last().unwrap().kind else { panic!() };
    assert_eq!(instance.body.as_ref().unwrap().len(), 2);
}

const PARSER: &str = "extern packet_in { void extract<T>(out T t); }";

/// 13
#[test]
fn parsers() {
    let program = good(&format!(
        "{PARSER}{TYPES} parser p(packet_in b, out S s)(bit<8> n) {{
            const T k = 1; T v = k; value_set<tuple<T, bool>>(4) vs; X<T>(1) x;
            state start {{ b.extract<H>(s.h); T w; {{ v = 1; }} if (v == 1) {{ v = 2; }} else v = 3; ; transition select(v, s.h.f) {{
                (1, _): next; (1 &&& 2, 3 .. 4): accept; (default, 5): reject; vs: next; 5: next; (T) 6: next; (v + 1) * 2: next;
                (7): next; (8 .. 9): next; (E.A, _): next; _: accept; default: reject; }} }}
            @x state next {{ transition accept; }} state last {{}} }}"
    ));
    let DeclKind::Parser(p) = &program.decls.last().unwrap().kind else { panic!() };
    assert_eq!((p.locals.len(), p.states.len(), p.constructor_params.len()), (4, 3, 1));
    let Some(Transition { kind: TransitionKind::Select(select), .. }) = &p.states[0].transition else {
        panic!()
    };
    let kinds: Vec<&str> = select
        .cases
        .iter()
        .map(|c| match &c.keyset.kind {
            KeysetKind::Default => "default",
            KeysetKind::DontCare => "_",
            KeysetKind::Value(_) => "value",
            KeysetKind::Mask(..) => "mask",
            KeysetKind::Range(..) => "range",
            KeysetKind::Tuple(list) => ["", "one", "two"][list.len()],
        })
        .collect();
    let wanted =
        ["two", "two", "two", "value", "value", "value", "value", "value", "one", "two", "_", "default"];
    assert_eq!(kinds, wanted);
    assert!(p.states[2].transition.is_none());
}

/// 14, 14.2
#[test]
fn controls_and_tables() {
    let program = good(&format!(
        "{TYPES} control c(inout S s)(T n) {{
            action a(in T x, T y) {{ s.h.f = x; }}
            @name(\"t\") table t {{
                key = {{ s.h.f: exact @name(\"f\"); s.h.f + 1: ternary; }}
                actions = {{ a(1); .NoAction; @defaultonly b; }}
                const default_action = a(1, 2); size = 1024; @x const implementation = X<T>(3); priority = 1;
                const entries = {{ (1, _): a(1) @name(\"e\"); const priority = 3: (2 .. 3, 4 &&& 5): a(2); priority = (1 + 1): 7: b; }}
            }}
            apply {{ t.apply(); }} }}"
    ));
    let DeclKind::Control(c) = &program.decls.last().unwrap().kind else { panic!() };
    let DeclKind::Table(t) = &c.locals[1].kind else { panic!() };
    let names: Vec<&str> = t.properties.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["key", "actions", "default_action", "size", "implementation", "priority", "entries"]);
    let PropertyKind::Entries(entries) = &t.properties[6].kind else { panic!() };
    let shape: Vec<(bool, Option<String>)> =
        entries.iter().map(|e| (e.is_const, e.priority.as_ref().map(show))).collect();
    assert_eq!(shape, [(false, None), (true, Some("3".into())), (false, Some("(1 + 1)".into()))]);
    let PropertyKind::Actions(actions) = &t.properties[1].kind else { panic!() };
    assert!(actions[1].absolute && actions[0].args.is_some() && actions[2].annotations.len() == 1);
}

/// 12
#[test]
fn statements() {
    let program = good(&format!(
        "{TYPES} control d() {{ apply {{}} }} control c(inout S s, list<T> l) {{ apply {{
            s.h.f = 1; (s.h.f) = 2; s.h.f[3:0] += 1; s.h.f >>= 1; s.h.f |+|= 2; .g(1); g<T, _>(a = 1); d.apply(); X<T>.make(1);
            if (true) g(); else if (false) {{ }} else g();
            switch (s.h.f) {{ 1: 2: {{ g(); }} (T) 3: {{ }} E.A: @x {{ }} default: {{ exit; }} }}
            for (T i = 0, T j = 1; i < 3; i += 1, j = j + 1) {{ if (i == 1) break; continue; }}
            @unroll for (@x T i in 0 .. 3) g(); for (T i in l) {{ }} for (;true;) ;
            @atomic {{ return; }} const T k = 1; T v; X<T>(1) x; return; }} }}"
    ));
    let DeclKind::Control(c) = &program.decls.last().unwrap().kind else { panic!() };
    let kind = |s: &Stmt| match &s.kind {
        StmtKind::Empty => "empty",
        StmtKind::Decl(_) => "decl",
        StmtKind::Assign { op: None, .. } => "=",
        StmtKind::Assign { op: Some(op), .. } => op.text(),
        StmtKind::Call(_) => "call",
        StmtKind::DirectApply { .. } => "apply",
        StmtKind::If(_) => "if",
        StmtKind::Switch(_) => "switch",
        StmtKind::For(_) => "for",
        StmtKind::ForIn(_) => "for in",
        StmtKind::Return(_) => "return",
        StmtKind::Exit => "exit",
        StmtKind::Break => "break",
        StmtKind::Continue => "continue",
        StmtKind::Block(_) => "block",
    };
    let kinds: Vec<&str> = c.apply.stmts.iter().map(kind).collect();
    assert_eq!(
        kinds,
        [
            "=", "=", "+", ">>", "|+|", "call", "call", "apply", "call", "if", "switch", "for", "for in",
            "for in", "for", "block", "decl", "decl", "decl", "return"
        ]
    );
    let StmtKind::If(chain) = &c.apply.stmts[9].kind else { panic!() };
    assert!(chain.arms.len() == 2 && chain.otherwise.is_some());
    let StmtKind::Switch(switch) = &c.apply.stmts[10].kind else { panic!() };
    assert_eq!(
        switch.cases.iter().map(|c| c.body.is_some()).collect::<Vec<_>>(),
        [false, true, true, true, true]
    );
}

/// 20
#[test]
fn annotations() {
    let program = good(
        "@a @b() @c(x (y) { \"s\" ; 1foo $) @d[] @e[1, \"x\", ] @f[a = 1, b = 2] @pragma g h \"i\"
         @name(\"n\") const bit<8> x = 1;",
    );
    let list = &program.decls[0].annotations;
    let names: Vec<&str> = list.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e", "f", "g", "name"]);
    let AnnotationBody::Unstructured(tokens) = &list[2].body else { panic!() };
    assert_eq!(
        tokens.iter().map(|t| &*t.text).collect::<Vec<_>>(),
        ["x", "(", "y", ")", "{", "s", ";", "1foo", "$"]
    );
    assert!(matches!(&list[4].body, AnnotationBody::Expressions(l) if l.len() == 2));
    assert!(matches!(&list[5].body, AnnotationBody::KeyValues(l) if l.len() == 2));
    assert!(matches!(&list[6].body, AnnotationBody::Unstructured(l) if l.len() == 2));
    assert_eq!(list[7].string().as_deref(), Some("n"));
    assert_eq!(annotation(list, "name").map(|a| a.id), Some(list[7].id));
    assert!(error("@pkginfo const bit<8> x = 1;").contains("`@pkginfo` needs"));
    let program = good("@name(\"a\" ++ \"b\") const bit<8> x = 1;");
    assert_eq!(program.decls[0].annotations[0].string().as_deref(), Some("ab"));
    assert_eq!(error("@name(+) const bit<8> x = 1;"), "1:7 expected one string in `@name`, found `+`");
    assert_eq!(
        error("@name(\"a\", 1) const bit<8> x = 1;"),
        "1:10 expected one string in `@name`, found `,`"
    );
    assert!(error("@a(x const bit<8> x = 1;").contains("`)`"));
}

/// 6.4.3.1: a name that hides a type is none, and the type is one again behind the scope.
#[test]
fn scopes_decide_what_is_a_type() {
    good("typedef bit<8> t; control c(inout bit<8> t) { apply { t = 1; } } const t x = (t) 1;");
    good("typedef bit<8> t; control c(inout bit<8> y) { bit<8> t; apply { t = t + 1; } } action a(t z) { }");
    good("void f<t>(in t x) { t y = x; } const bit<8> t = 1; const bit<8> u = t;");
    good(
        "const bit X = 1; bit f<X>() { return .X; } typedef bit<8> t; action a(in bit<8> t) { .t x = (.t) t; }",
    );
    good("struct t { bit<8> t; } control c(in t t) { apply { t.t = 1; } }");
    assert!(error("void f<t>(in t x) { } const t y = 1;").contains("expected a type"));
    // An error in between leaves no scope open.
    let list = errors("typedef bit<8> t; control c(inout bit<8> t) { apply { t = ; } } const t x = 1;");
    assert_eq!(list.len(), 1, "{list:?}");
}

#[test]
fn several_errors_in_one_run() {
    let list = errors(
        "struct S {\n  bit<8> a\n  foo b;\n  bit<8> c;\n}\ncontrol c(inout S s) {\n  action a() { s.a = ; s.c == 1; s.a = 1; }\n  \
         table t { key = { s.a exact; } actions { a; } }\n  apply {\n    t.apply()\n    if (s.a) { ]\n  }\n}\nheader H { bit<8> f; ) }\nconst int x = 1;\n",
    );
    let lines: Vec<&str> = list.iter().map(|e| e.split(':').next().unwrap()).collect();
    assert_eq!(lines, ["3", "7", "7", "8", "8", "11", "11", "14"], "{list:#?}");
}

#[test]
fn messages_say_what_was_expected_and_help() {
    let drawn = |text: &str| {
        let (_, map, diags) = read(text);
        render_all(&map, &diags, Style::Plain)
    };
    for (text, part) in [
        ("parser p() { stat start { transition accept; } }", "did you mean `state`?"),
        ("contrl c() { apply {} }", "did you mean `control`?"),
        ("control c(inout standard_metadata_t m) { apply {} }", "#include <v1model.p4>"),
        ("header ethernet_t { bit<8> a; } struct S { ethernt_t e; }", "there is a type `ethernet_t`"),
        ("bit<8> x;", "variables cannot be declared at the top level"),
        ("parser p() { state s { transition select(1) { default: accept; }; } }", "no `;` is needed here"),
        ("const bit<8> x = bit<8>(0);", "a cast has the type in parentheses"),
        ("control c() { apply { return 1 } }", "expected `;`"),
        ("table t { key = {} }", "it belongs into a control"),
        ("struct S { bit<8> table; }", "`table` is a word of the language"),
        ("const bit<8> x = 8w0b2;", "integers are"),
        ("control c() { apply { foo_t x; } }", "no type `foo_t` is declared"),
        ("} const bit<8> x = 1;", "a `}` too many"),
    ] {
        let text = drawn(text);
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert_eq!(error("control c() {\n  apply {\n    x = 1\n  }\n}"), "4:3 expected `;`, found `}`");
}

#[test]
fn an_error_in_a_macro_points_to_its_use() {
    let (_, map, diags) = read("#define BAD 1 +\n\nconst int x = BAD;\n");
    let first = diags.first_error().unwrap();
    assert_eq!(map.place(first.span()).unwrap().at.line, 3);
    let (_, map, diags) = read("#define BAD 1 2\n\nconst int x = BAD;\n");
    let first = diags.first_error().unwrap();
    assert_eq!((map.place(first.span()).unwrap().at.line, map.text(first.span())), (3, "BAD"));
    let drawn = render_all(&map, &diags, Style::Plain);
    assert!(drawn.contains("in the macro `BAD`") && drawn.contains("a.p4:3:15"), "{drawn}");
}

/// On a small stack: what is too deep is said, and what is not is read.
#[test]
fn depth_has_a_limit() {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
        for (open, inner, close) in [
            ("(", "1", ")"),
            ("{", "1", "}"),
            ("-", "1", ""),
            ("(bit<8>) ", "1", ""),
            ("1 + (", "1", ")"),
            ("a ? 1 : ", "1", ""),
            ("a[", "1", "]"),
            ("f(", "1", ")"),
            ("f<bit<(", "1", ")>>(1)"),
            ("1 + ", "1", ""),
            ("(bit<(", "1", ")>) 1"),
        ] {
            let text = |n: usize| format!("const int x = {}{inner}{};", open.repeat(n), close.repeat(n));
            let small = errors(&text(60));
            assert!(small.is_empty(), "{open}: {small:?}");
            let large = errors(&text(20_000));
            assert!(large[0].contains("nested more than"), "{open}: {}", large[0]);
        }
        for (open, close) in [
            ("{ ", "}"),
            ("if (true) ", "; "),
            ("if (true) { ", "}"),
            ("for (;true;) ", ";"),
            ("switch (1) { 1: {", "} }"),
        ] {
            let text = |n: usize| {
                format!(
                    "control c() {{ apply {{ {};{} }} }}",
                    open.repeat(n),
                    if close.starts_with('}') || close.starts_with("} ") {
                        close.repeat(n)
                    } else {
                        String::new()
                    }
                )
            };
            let small = errors(&text(60));
            assert!(small.is_empty(), "{open}: {small:?}");
            assert!(!errors(&text(20_000)).is_empty(), "{open}");
        }
        let types = |n: usize| format!("struct S {{ {}bit{} x; }}", "tuple<".repeat(n), ">".repeat(n));
        assert!(errors(&types(60)).is_empty());
        assert!(errors(&types(20_000))[0].contains("nested more than"));
        // A chain of conditions is one statement, however long.
        let chain = format!("control c() {{ apply {{ {} {{}} }} }}", "if (true) {} else ".repeat(5_000));
        assert!(errors(&chain).is_empty());
    });
    thread.unwrap().join().unwrap();
}
