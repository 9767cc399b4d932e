//! What names mean inside one SELECT.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use model::{Code, Error, Precision, Result};

use crate::plan::types::{Ty, Typed};

/// What a column of a relation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Data,
    Tag,
    Tbname,
}

/// What a relation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    Stable,
    Child,
    Normal,
    System,
    Subquery,
}

impl SourceKind {
    /// Whether its rows come from one table, hence in order of time.
    pub(crate) fn is_single(self) -> bool {
        matches!(self, Self::Child | Self::Normal)
    }
}

/// A column in reach of an expression.
#[derive(Clone, Debug)]
pub(crate) struct ScopeColumn {
    pub(crate) name: Arc<str>,
    pub(crate) column: Column,
    pub(crate) ty: Ty,
    pub(crate) role: Role,
    /// An expression without alias in a subquery has a name to show but none to refer to it by.
    pub(crate) nameless: bool,
}

/// A relation in reach of an expression.
#[derive(Clone, Debug)]
pub(crate) struct ScopeTable {
    /// Alias, or the table's name.
    pub(crate) alias: Option<Arc<str>>,
    pub(crate) kind: SourceKind,
    pub(crate) columns: Vec<ScopeColumn>,
    /// Index of the primary timestamp.
    pub(crate) timeline: Option<usize>,
    /// Index of the column that makes the primary key composite.
    pub(crate) key: Option<usize>,
    /// Rows arrive in order of the timeline.
    pub(crate) ordered: bool,
    pub(crate) precision: Precision,
    /// Columns by name, made when first asked for.
    pub(crate) names: ColumnNames,
}

/// Where in a table the columns of each name stand. A wide table is asked once for each of its columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnNames(OnceCell<HashMap<Arc<str>, Vec<usize>>>);

impl ScopeTable {
    fn called<'t>(&'t self, name: &str) -> impl Iterator<Item = &'t ScopeColumn> + use<'t> {
        let names = self.names.0.get_or_init(|| {
            let mut names: HashMap<Arc<str>, Vec<usize>> = HashMap::new();
            for (index, column) in self.columns.iter().enumerate() {
                names.entry(Arc::clone(&column.name)).or_default().push(index);
            }
            names
        });
        names.get(name).into_iter().flatten().filter_map(|&index| self.columns.get(index))
    }
}

/// Everything in reach.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) tables: Vec<ScopeTable>,
    /// The table that gives the result its timeline; `None` for a full join.
    pub(crate) driving: Option<usize>,
}

impl Scope {
    /// Precision of times without one of their own.
    pub(crate) fn precision(&self) -> Precision {
        self.tables.first().map_or(Precision::Ms, |t| t.precision)
    }

    pub(crate) fn tables_called<'s, 'q>(
        &'s self,
        qualifier: Option<&'q str>,
    ) -> impl Iterator<Item = &'s ScopeTable> + use<'s, 'q> {
        self.tables.iter().filter(move |t| match qualifier {
            Some(q) => t.alias.as_deref() == Some(q),
            None => true,
        })
    }

    /// The column of this name.
    pub(crate) fn column(&self, qualifier: Option<&str>, name: &str) -> Result<&ScopeColumn> {
        let mut found = None;
        for table in self.tables_called(qualifier) {
            for column in table.called(name) {
                if !column.nameless && column.role != Role::Tbname {
                    if found.is_some() {
                        return Err(Error::with(Code::AmbiguousColumn, name));
                    }
                    found = Some(column);
                }
            }
        }
        found.ok_or_else(|| {
            if let Some(qualifier) = qualifier
                && self.tables_called(Some(qualifier)).next().is_none()
            {
                let known: Vec<_> = self.tables.iter().filter_map(|table| table.alias.as_deref()).collect();
                let hint = match known.as_slice() {
                    [] => format!("no table of FROM is called {qualifier}"),
                    _ => format!("no table of FROM is called {qualifier}, but {}", known.join(", ")),
                };
                return Error::with(Code::InvalidColumn, name).hint(hint);
            }
            let columns = self.tables_called(qualifier).flat_map(|table| &table.columns);
            Error::with(Code::InvalidColumn, name).hint_case(name, columns.map(|column| &*column.name))
        })
    }

    /// `tbname`.
    pub(crate) fn tbname(&self, qualifier: Option<&str>) -> Result<&ScopeColumn> {
        let mut found = None;
        for table in self.tables_called(qualifier) {
            for column in &table.columns {
                let is = match table.kind {
                    SourceKind::Subquery => &*column.name == "tbname",
                    _ => column.role == Role::Tbname,
                };
                if is {
                    if found.is_some() {
                        return Err(Error::with(Code::AmbiguousColumn, "tbname"));
                    }
                    found = Some(column);
                }
            }
        }
        found.ok_or_else(|| Error::of(Code::InvalidTbname))
    }

    /// The timeline: of the named table, or of the result.
    pub(crate) fn timeline(&self, qualifier: Option<&str>) -> Option<&ScopeColumn> {
        let table = match qualifier {
            Some(_) => self.tables_called(qualifier).next(),
            None => self.driving.and_then(|d| self.tables.get(d)),
        }?;
        table.columns.get(table.timeline?)
    }

    /// The column that tells rows of one instant apart, where `time` is the timeline of a table with a composite key.
    pub(crate) fn key_beside(&self, time: &Expr) -> Option<Expr> {
        let Expr::Column(time) = time else { return None };
        let is_time =
            |t: &&ScopeTable| t.timeline.and_then(|i| t.columns.get(i)).is_some_and(|c| c.column == *time);
        let table = self.tables.iter().find(is_time)?;
        table.columns.get(table.key?).map(|key| Expr::Column(key.column.clone()))
    }

    /// Whether `column` is the timeline of one of the tables.
    pub(crate) fn is_timeline(&self, column: &Column) -> bool {
        self.tables
            .iter()
            .any(|t| t.timeline.and_then(|i| t.columns.get(i)).is_some_and(|c| &c.column == column))
    }

    /// What `column` is, where a relation of the scope has it.
    pub(crate) fn role(&self, column: &Column) -> Option<Role> {
        self.tables.iter().flat_map(|t| &t.columns).find(|c| &c.column == column).map(|c| c.role)
    }

    /// The bound column.
    pub(crate) fn typed(&self, column: &ScopeColumn) -> Typed {
        let timeline = self.is_timeline(&column.column);
        Typed { timeline, ..Typed::column(column.column.clone(), column.ty) }
    }

    pub(crate) fn columns(&self) -> impl Iterator<Item = &ScopeColumn> {
        self.tables.iter().flat_map(|t| &t.columns)
    }
}
