//! The select list: wildcards, and functions that stand for several columns.

use model::{Code, Error, Result};

use crate::ast::{At, Expr, SelectItem};
use crate::plan::scope::{Role, Scope, ScopeColumn, ScopeTable, SourceKind};

/// Longest column name of a result, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// An item of the select list, wildcards expanded.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) alias: Option<String>,
    pub(crate) nameless: bool,
    pub(crate) source: ItemSource,
}

/// What an item is.
#[derive(Clone, Debug)]
pub(crate) enum ItemSource {
    Expr(Expr),
    /// From a wildcard: this very column, whatever its name may also mean.
    Column(ScopeColumn),
}

impl Item {
    pub(crate) fn expr(&self) -> Option<&Expr> {
        match &self.source {
            ItemSource::Expr(expr) => Some(expr),
            ItemSource::Column(_) => None,
        }
    }
}

/// Expands the select list.
pub(crate) fn expand(items: &[SelectItem], scope: &Scope) -> Result<Vec<Item>> {
    let mut expanded = Vec::with_capacity(items.len());
    for item in items {
        match item {
            SelectItem::Wildcard => {
                if scope.tables.is_empty() {
                    return Err(Error::text(Code::Syntax, "syntax error near \"*\""));
                }
                let joined = scope.tables.len() > 1;
                for table in &scope.tables {
                    expanded.extend(wildcard(table, joined));
                }
            }
            SelectItem::QualifiedWildcard(name) => {
                let mut any = false;
                for table in scope.tables_called(Some(name)) {
                    expanded.extend(wildcard(table, scope.tables.len() > 1));
                    any = true;
                }
                if !any {
                    return Err(Error::with(Code::TableNotExist, name));
                }
            }
            SelectItem::Expr { expr, alias, text } => {
                expression(expr, alias.as_deref(), text, scope, &mut expanded)?
            }
        }
    }
    Ok(expanded)
}

/// A super table shows its tags behind its columns, unless it is part of a join.
fn wildcard(table: &ScopeTable, joined: bool) -> impl Iterator<Item = Item> + '_ {
    let tags = table.kind == SourceKind::Stable && !joined;
    table.columns.iter().filter(move |c| c.role == Role::Data || (tags && c.role == Role::Tag)).map(|c| {
        Item {
            name: c.name.to_string(),
            alias: None,
            nameless: c.nameless,
            source: ItemSource::Column(c.clone()),
        }
    })
}

fn expression(
    expr: &Expr,
    alias: Option<&str>,
    text: &str,
    scope: &Scope,
    into: &mut Vec<Item>,
) -> Result<()> {
    match expr {
        Expr::Function { name, args, .. } if matches!(&**name, "first" | "last" | "last_row") => {
            if matches!(args.as_slice(), [Expr::Star]) {
                for column in scope.tables.iter().flat_map(|t| &t.columns).filter(|c| c.role == Role::Data) {
                    let arg = Expr::Column {
                        qualifier: None,
                        name: column.name.to_string(),
                        quoted: true,
                        at: At::default(),
                    };
                    into.push(call_of(name, arg, &column.name));
                }
                return Ok(());
            }
            if args.len() > 1 {
                for arg in args {
                    into.push(call_of(name, arg.clone(), &argument_text(arg)));
                }
                return Ok(());
            }
        }
        Expr::Column { name, quoted: false, .. } if name == "_tags" => {
            let tables: Vec<&ScopeTable> = scope
                .tables
                .iter()
                .filter(|t| matches!(t.kind, SourceKind::Stable | SourceKind::Child))
                .collect();
            if tables.is_empty() {
                return Err(Error::text(
                    Code::TagsPseudoColumn,
                    "Tags can only applied to super table and child table",
                ));
            }
            let tags = tables.into_iter().flat_map(|t| &t.columns).filter(|c| c.role == Role::Tag);
            into.extend(tags.map(|c| Item {
                name: c.name.to_string(),
                alias: None,
                nameless: false,
                source: ItemSource::Column(c.clone()),
            }));
            return Ok(());
        }
        _ => {}
    }
    let (name, nameless) = match (alias, expr) {
        (Some(alias), _) => (alias.to_owned(), false),
        (None, Expr::Column { name, .. }) => (name.clone(), false),
        (None, _) => (clip(text), true),
    };
    into.push(Item {
        name,
        alias: alias.map(str::to_owned),
        nameless,
        source: ItemSource::Expr(expr.clone()),
    });
    Ok(())
}

fn call_of(function: &str, arg: Expr, text: &str) -> Item {
    let expr = Expr::Function { name: function.to_owned(), args: vec![arg], at: At::default() };
    Item {
        name: clip(&format!("{function}({text})")),
        alias: None,
        nameless: true,
        source: ItemSource::Expr(expr),
    }
}

/// How an argument is shown in the name of a column that an expansion made.
fn argument_text(arg: &Expr) -> String {
    match arg {
        Expr::Column { qualifier: Some(q), name, .. } => format!("{q}.{name}"),
        Expr::Column { qualifier: None, name, .. } => name.clone(),
        Expr::Literal(value) => value.to_string(),
        _ => "..".to_owned(),
    }
}

fn clip(text: &str) -> String {
    let mut end = text.len().min(NAME_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text).to_owned()
}
