//! Queries to plans: a pure function of the tree, of what its names mean, and of the session.
//!
//! [`relations_named`] says which names to look up; with the answers in [`Relations`], [`plan`] makes a [`Plan`], and an
//! [`Engine`](crate::engine::Engine) runs it.

pub(crate) mod aggregate;
mod build;
mod calls;
pub(crate) mod coerce;
pub(crate) mod conditions;
mod delete;
pub(crate) mod error;
pub(crate) mod expr;
pub(crate) mod fill;
pub(crate) mod from;
pub(crate) mod grid;
pub(crate) mod group;
pub(crate) mod items;
pub(crate) mod output;
pub(crate) mod scope;
pub(crate) mod select;
pub(crate) mod types;
pub(crate) mod union;
pub(crate) mod window;

pub use delete::{DeletePlan, plan_delete};

use std::cell::Cell;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use model::{Code, DataType, Error, Precision, Result, Zone};

use crate::ast::{ObjectName, Query, Select, SetExpr, TableRef};
use crate::plan::types::Typed;
use crate::source::Relation;

/// What a statement knows of its surroundings. One value for the whole statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Zone of times without an offset, of days and of months.
    pub zone: Zone,
    /// The statement's start, in nanoseconds since the epoch.
    pub now_ns: i64,
    /// The database in use.
    pub database: Option<String>,
    /// Its precision, for `NOW()` without FROM.
    pub precision: Precision,
    /// `name@host`, as `CURRENT_USER()` shows it.
    pub user: String,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            zone: Zone::UTC,
            now_ns: 0,
            database: None,
            precision: Precision::Ms,
            user: "root@localhost".to_owned(),
        }
    }
}

/// What the names in a query mean.
#[derive(Clone, Debug, Default)]
pub struct Relations {
    known: Vec<(ObjectName, Relation)>,
}

impl Relations {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the meaning of a name, exactly as [`relations_named`] gave it.
    pub fn insert(&mut self, name: ObjectName, relation: Relation) {
        self.known.retain(|(n, _)| *n != name);
        self.known.push((name, relation));
    }

    /// The meaning of a name.
    pub fn get(&self, name: &ObjectName) -> Result<&Relation> {
        let found = self.known.iter().find(|(n, _)| n == name).map(|(_, r)| r);
        found.ok_or_else(|| no_table(Code::TableNotExist, name))
    }
}

/// A table, or its database, that a query names and that there is not, under the inner code as clients know it.
#[must_use]
pub fn no_table(code: Code, name: &ObjectName) -> Error {
    Error::text(code, format!("Fail to get table info, error: {}: {name}", code.message()))
}

/// The tables that a query reads, each once, in the order of their first appearance.
#[must_use]
pub fn relations_named(query: &Query) -> Vec<ObjectName> {
    fn query_names(query: &Query, names: &mut Vec<ObjectName>) {
        set_names(&query.body, names);
    }
    fn set_names(set: &SetExpr, names: &mut Vec<ObjectName>) {
        match set {
            SetExpr::Select(select) => select_names(select, names),
            SetExpr::Union { left, right, .. } => {
                set_names(left, names);
                set_names(right, names);
            }
            SetExpr::Nested(query) => query_names(query, names),
        }
    }
    fn select_names(select: &Select, names: &mut Vec<ObjectName>) {
        if let Some(from) = &select.from {
            table_names(from, names);
        }
    }
    fn table_names(table: &TableRef, names: &mut Vec<ObjectName>) {
        match table {
            TableRef::Table { name, .. } => {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
            TableRef::Subquery { query, .. } => query_names(query, names),
            TableRef::Join { left, right, .. } => {
                table_names(left, names);
                table_names(right, names);
            }
        }
    }
    let mut names = Vec::new();
    query_names(query, &mut names);
    names
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputColumn {
    /// Alias, column name, or source text; names may repeat.
    pub name: String,
    /// Its type. Tells VARCHAR from NCHAR, which Arrow does not.
    pub data_type: DataType,
    /// Unit of TIMESTAMP values.
    pub precision: Precision,
}

/// A planned query.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) logical: LogicalPlan,
    pub(crate) columns: Vec<OutputColumn>,
    /// Most shards that one of its scans reads.
    pub(crate) shards: usize,
}

impl Plan {
    /// Columns of the result.
    #[must_use]
    pub fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }
}

/// Plans a query.
pub fn plan(query: &Query, relations: &Relations, session: &Session) -> Result<Plan> {
    let cx = Context::new(relations, session);
    let planned = union::plan_query(&cx, query)?;
    let columns = planned
        .columns
        .iter()
        .map(|c| OutputColumn { name: c.name.clone(), data_type: c.ty.declared(), precision: c.ty.precision })
        .collect();
    Ok(Plan { logical: planned.plan, columns, shards: cx.shards.get() })
}

/// What planning shares from the outermost query to the innermost.
pub(crate) struct Context<'a> {
    pub(crate) relations: &'a Relations,
    pub(crate) session: &'a Session,
    counter: Cell<usize>,
    /// Parts of expressions that were copied.
    copied: Cell<usize>,
    pub(crate) shards: Cell<usize>,
    /// Parts of conditions that may still be shown to DataFusion one by one.
    parts: Cell<usize>,
}

/// Parts of expressions that one statement may have copied. Some forms hold an operand twice (`BETWEEN`, `NULLIF`), and
/// the plan doubles with each that stands in the other.
const COPIED_MAX: usize = 1 << 16;

impl<'a> Context<'a> {
    pub(crate) fn new(relations: &'a Relations, session: &'a Session) -> Self {
        Self {
            relations,
            session,
            counter: Cell::new(0),
            copied: Cell::new(0),
            shards: Cell::new(0),
            parts: Cell::new(conditions::PARTS_MAX),
        }
    }

    /// `value` for another place in the plan: every second use of a bound operand goes through here. Columns and
    /// literals are free.
    ///
    /// # Errors
    /// 0x2600 where copies outgrow the statement.
    pub(crate) fn copy(&self, value: &Typed) -> Result<Typed> {
        let mut parts = 0;
        value
            .expr
            .apply(|_| {
                parts += 1;
                Ok(TreeNodeRecursion::Continue)
            })
            .map_err(error::from_datafusion)?;
        self.copied.set(self.copied.get().saturating_add(parts - 1));
        if self.copied.get() > COPIED_MAX {
            return Err(Error::text(
                Code::Syntax,
                "expression too complex: BETWEEN, IN, CASE or NULLIF stand too deep in each other; compute the inner \
                 value in a subquery",
            ));
        }
        Ok(value.clone())
    }

    /// A number that no other part of the plan has.
    pub(crate) fn unique(&self) -> usize {
        let number = self.counter.get();
        self.counter.set(number + 1);
        number
    }
}
