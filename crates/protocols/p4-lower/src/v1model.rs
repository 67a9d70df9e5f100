//! The architecture of simple_switch: which control is what.

use std::rc::Rc;

use barewire_p4::ir::{Arch, Deparser, FieldId, Header, HeaderId, HeaderType, HeaderTypeId, Parser};
use barewire_p4_source::Span;
use barewire_p4_source::ast::{self, DeclKind};
use barewire_p4_source::types;
use barewire_p4_source::types::ty::TypeId;

use super::code;
use super::{BlockInstance, Lower, Mode, Object, Result, Val, refuse};

impl<'a> Lower<'a> {
    pub(crate) fn v1model(&mut self) -> Result<()> {
        let Some(main) = self.t.main.map(|id| self.t.symbol(id)) else {
            return refuse(Span::NONE, "the program has no `main`");
        };
        let span = main.span;
        let psa = match types::architecture(self.t) {
            Some("v1model") => false,
            Some("psa") => true,
            Some(other) => {
                return refuse(span, format!("a program for {other} is not lowered: v1model and psa are"));
            }
            None => return refuse(span, "the program has no `main`"),
        };
        let Some(DeclKind::Instance(instance)) = self.decls.get(&main.node).map(|decl| &decl.kind) else {
            return refuse(span, "`main` is no instance");
        };
        let Some(info) = self.t.calls.get(&main.node) else {
            return refuse(span, "`main` is not known");
        };
        let types::Callee::PackageConstructor(package) = info.callee else {
            return refuse(span, "`main` is no package");
        };
        let args = self.args(&instance.args, info, &self.t.packages[package.index()].params, span)?;
        if psa {
            let args: Vec<Val> = args.into_iter().map(|(val, _)| val).collect();
            return self.psa(&args, span);
        }
        self.program.arch = Arch::V1Model;
        let mut blocks: Vec<Rc<BlockInstance>> = Vec::new();
        for (arg, _) in args {
            match arg {
                Val::Object(Object::Block(block)) => blocks.push(block),
                _ => return refuse(span, "an argument of `main` that is no parser or control"),
            }
        }
        let [parser, verify, ingress, egress, update, deparser] = &blocks[..] else {
            return refuse(span, "`main` has not the parts of a V1Switch");
        };

        self.begin();
        let mut params: Vec<TypeId> = Vec::new();
        for param in &self.t.blocks[parser.block.index()].params {
            params.push(self.closed(param.ty));
        }
        let &[_, headers_ty, metadata_ty, standard_ty] = &params[..] else {
            return refuse(span, "the parser has not the parameters of v1model");
        };
        let standard = self.target_metadata("standard_metadata", standard_ty, span)?;
        let headers = self.headers(headers_ty, span)?;
        let name = self.t.show(metadata_ty);
        let name = name.split_whitespace().last().unwrap_or("meta").to_owned();
        let metadata = self.storage(&name, metadata_ty, span)?;
        self.metadata = Some((metadata.clone(), metadata_ty));
        self.errors();

        let packet = (Val::Object(Object::Packet), TypeId::VOID);
        let all = [(headers.clone(), headers_ty), (metadata.clone(), metadata_ty), (standard, standard_ty)];
        self.mode = Mode::Parser;
        let mut args = vec![packet.clone()];
        args.extend(all.iter().cloned());
        // What the parser gives out is empty when a packet arrives.
        self.apply_block_bare(parser, args, span)?;
        let made = std::mem::take(&mut self.code);
        let (start, states) = code::states(&made, span)?;
        self.program.parsers.push(Parser { name: "parser".into(), start, states });
        self.value_set_widths();

        self.mode = Mode::Pipeline;
        self.sums(verify, vec![headers.clone(), metadata.clone()], true)?;
        for (block, name) in [(ingress, "ingress"), (egress, "egress")] {
            self.apply_block_bare(block, all.to_vec(), span)?;
            let made = std::mem::take(&mut self.code);
            let pipeline = self.graph(&made, name, span)?;
            self.program.pipelines.push(pipeline);
        }
        self.sums(update, vec![headers.clone(), metadata], false)?;
        let (order, stmts) = self.deparser(deparser, [packet, (headers, headers_ty)])?;
        self.program.deparsers.push(Deparser { name: "deparser".into(), order, stmts });
        Ok(())
    }

    /// What every program has first: `scalars`.
    pub(crate) fn begin(&mut self) {
        self.program.header_types.push(HeaderType { name: "scalars_0".into(), fields: Vec::new() });
        self.metadata_header("scalars", HeaderTypeId(0));
    }

    pub(crate) fn errors(&mut self) {
        let names = self.t.errors.iter().enumerate();
        self.program.errors = names.map(|(at, name)| (name.to_string(), at as u32)).collect();
    }

    /// Sets that no selection asks have to have a width, too.
    pub(crate) fn value_set_widths(&mut self) {
        for set in &mut self.program.value_sets {
            if set.widths.is_empty() {
                set.widths.push(1);
            }
        }
    }

    /// A part of the switch: its arguments are the packet's own headers and metadata.
    pub(crate) fn apply_block_bare(
        &mut self,
        block: &Rc<BlockInstance>,
        args: Vec<(Val, TypeId)>,
        span: Span,
    ) -> Result<()> {
        let applied = self.applied.remove(&block.block);
        self.apply_block(block, args, span)?;
        if let Some(applied) = applied {
            self.applied.insert(block.block, applied);
        }
        Ok(())
    }

    fn metadata_header(&mut self, name: &str, ty: HeaderTypeId) -> HeaderId {
        let name = self.unique(name);
        self.program.headers.push(Header { name, ty, metadata: true, union: None, length_exp: None });
        HeaderId::from(self.program.headers.len() - 1)
    }

    /// Metadata that the target reads and writes, by the name it knows.
    pub(crate) fn target_metadata(&mut self, name: &str, ty: TypeId, span: Span) -> Result<Val> {
        let fields = self.parts_of(ty).unwrap_or_default();
        let mut flat = Vec::new();
        for (name, ty) in &fields {
            self.flat(name, *ty, span, &mut flat)?;
        }
        let of = HeaderTypeId::from(self.program.header_types.len());
        let type_name = if name == "standard_metadata" { name.to_owned() } else { format!("{name}_t") };
        self.program.header_types.push(HeaderType { name: type_name, fields: flat });
        let id = self.metadata_header(name, of);
        let mut next = 0;
        let val = self.tree(&id.into(), ty, &mut next);
        // Older names of fields.
        let bare = self.bare(ty);
        if let types::ty::Type::Struct(of, _) = self.types.get(bare) {
            for (at, field) in self.t.structs[of.index()].fields.iter().enumerate() {
                let alias =
                    ast::annotation(&field.decl.annotations, "alias").and_then(ast::Annotation::string);
                if let Some(alias) = alias {
                    self.program.field_aliases.push((alias, FieldId { header: id, field: at as u32 }));
                }
            }
        }
        Ok(val)
    }

    /// The headers of the packet, each by its own name.
    pub(crate) fn headers(&mut self, ty: TypeId, span: Span) -> Result<Val> {
        // One header, or one stack, is all that there is.
        let Some(parts) = self.parts_of(ty) else { return self.storage("hdr", ty, span) };
        let mut out = Vec::new();
        for (name, ty) in parts {
            let name = if self.scalar(ty).is_some() { format!("hdr.{name}") } else { name.to_string() };
            out.push(self.storage(&name, ty, span)?);
        }
        Ok(Val::Parts(out.into()))
    }
}
