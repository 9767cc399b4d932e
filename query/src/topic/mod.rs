//! Topics: what CREATE TOPIC makes of its SELECT or its condition on children.
//!
//! A topic keeps its *definition*: the statement as text, and what each name in it meant when it was made. It is compiled
//! again from that, by a later process too, whatever was renamed, added or dropped since: a renamed column keeps
//! delivering, a dropped one gives NULL, a new one is not there until RELOAD.

mod children;
mod query;

pub use children::ChildFilter;
pub use query::CompiledTopic;

use std::sync::Arc;

use arrow_schema::{DataType as Arrow, Field};
use datafusion::common::Column;
use model::{Code, ColumnDef, ColumnId, DataType, Error, Precision, Result, TableKind, TableUid, Zone};
use serde::{Deserialize, Serialize};

use crate::ast::{CreateTopic, Expr, Query, ReloadTopic, Statement, TopicSource};
use crate::plan::Session;
use crate::plan::from::TBNAME;
use crate::plan::scope::{ColumnNames, Role, Scope, ScopeColumn, ScopeTable, SourceKind};
use crate::plan::types::Ty;
use crate::source::{Relation, RelationKind, ScanColumn};

/// A topic as it lies in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicDefinition {
    /// The statement as written.
    pub sql: String,
    /// The super table, or the normal table. A table made again under its name has another one.
    pub relation: TableUid,
    /// The child, for a topic over one child.
    pub child: Option<TableUid>,
    /// What kind of table.
    pub kind: TopicTable,
    /// Of the database.
    pub precision: Precision,
    /// Columns, then tags, with the names that the statement uses.
    pub columns: Vec<TopicColumn>,
    /// Zone of the session that made it, for times without an offset.
    pub zone: String,
    /// `now` in nanoseconds: the moment it was made.
    pub now_ns: i64,
}

/// Kind of a topic's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TopicTable {
    /// A super table: rows of all children.
    Stable,
    /// One child.
    Child,
    /// A normal table.
    Normal,
}

/// What a name in a topic's statement means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicColumn {
    /// Its name then.
    pub name: String,
    /// What stays.
    pub id: ColumnId,
    /// Its type then.
    pub data_type: DataType,
    /// A tag.
    pub is_tag: bool,
}

impl TopicDefinition {
    /// The definition of `sql` over `relation` as it is now.
    fn new(sql: &str, relation: &Relation, session: &Session) -> Result<Self> {
        let (kind, uid, child, schema) = match &relation.kind {
            RelationKind::Stable(stable) => (TopicTable::Stable, stable.uid, None, &stable.schema),
            RelationKind::Child { table, stable } => {
                (TopicTable::Child, stable.uid, Some(table.uid), &stable.schema)
            }
            RelationKind::Normal(table) => match &table.kind {
                TableKind::Normal { schema } => (TopicTable::Normal, table.uid, None, schema),
                TableKind::Child { .. } => return Err(Error::internal("a child given as a normal table")),
            },
            RelationKind::System { .. } => {
                return Err(Error::with(Code::DatabaseNotExist, &relation.database.name));
            }
        };
        let column = |c: &ColumnDef, is_tag| TopicColumn {
            name: c.name.clone(),
            id: c.id,
            data_type: c.data_type,
            is_tag,
        };
        let columns = schema.columns.iter().map(|c| column(c, false));
        let tags = schema.tags.iter().map(|c| column(c, true));
        Ok(Self {
            sql: sql.to_owned(),
            relation: uid,
            child,
            kind,
            precision: relation.database.options.precision,
            columns: columns.chain(tags).collect(),
            zone: zone_text(session.zone),
            now_ns: session.now_ns,
        })
    }

    /// The session that the statement is read in.
    fn session(&self) -> Session {
        Session {
            zone: Zone::parse(&self.zone).unwrap_or_default(),
            now_ns: self.now_ns,
            precision: self.precision,
            ..Session::default()
        }
    }

    /// The statement's names, with the name of the table and each column's place in a scan.
    fn scope(&self, alias: &str) -> (Scope, Vec<(ScanColumn, Field)>) {
        let mut columns = Vec::new();
        let mut sources = Vec::new();
        let mut add = |name: &str, unique: String, ty: Ty, arrow: Arrow, role: Role, scan: ScanColumn| {
            sources.push((scan, Field::new(unique.clone(), arrow, true)));
            let column = Column::new_unqualified(unique);
            columns.push(ScopeColumn { name: name.into(), column, ty, role, nameless: false });
        };
        for column in &self.columns {
            let ty = Ty::of(column.data_type, self.precision);
            let (role, scan) = if column.is_tag {
                (Role::Tag, ScanColumn::Tag(column.id))
            } else {
                (Role::Data, ScanColumn::Column(column.id))
            };
            add(&column.name, format!("{}#{}", column.name, column.id), ty, ty.arrow(), role, scan);
        }
        let names = Arrow::Dictionary(Box::new(Arrow::Int32), Box::new(Arrow::Utf8));
        let ty = Ty::plain(TBNAME);
        add("tbname", "#tbname".to_owned(), ty, names, Role::Tbname, ScanColumn::Tbname);
        let table = ScopeTable {
            alias: Some(alias.into()),
            kind: match self.kind {
                TopicTable::Stable => SourceKind::Stable,
                TopicTable::Child => SourceKind::Child,
                TopicTable::Normal => SourceKind::Normal,
            },
            columns,
            timeline: Some(0),
            key: None,
            ordered: true,
            precision: self.precision,
            names: ColumnNames::default(),
        };
        (Scope { tables: vec![table], driving: Some(0) }, sources)
    }
}

/// A zone in a form that `Zone::parse` reads.
fn zone_text(zone: Zone) -> String {
    match zone {
        Zone::Named(tz) => tz.name().to_owned(),
        Zone::Fixed(seconds) => {
            let sign = if seconds < 0 { '-' } else { '+' };
            let minutes = seconds.abs() / 60;
            format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
        }
    }
}

/// What a definition's statement says.
enum Parsed {
    Query(Box<Query>),
    Children(Option<Expr>),
}

fn parse(sql: &str) -> Result<Parsed> {
    match crate::parser::parse(sql)? {
        Statement::CreateTopic(CreateTopic { source: TopicSource::Query(query), .. })
        | Statement::ReloadTopic(ReloadTopic { query, .. })
        | Statement::Query(query) => Ok(Parsed::Query(query)),
        Statement::CreateTopic(CreateTopic { source: TopicSource::Stable { filter, .. }, .. }) => {
            Ok(Parsed::Children(filter))
        }
        _ => Err(Error::of(Code::InvalidTopicQuery)),
    }
}

/// Columns of a batch, those alone that an expression needs.
fn required<'e>(
    sources: Vec<(ScanColumn, Field)>,
    expressions: impl Iterator<Item = &'e datafusion::logical_expr::Expr>,
) -> (Vec<ScanColumn>, Arc<arrow_schema::Schema>) {
    let mut names = std::collections::BTreeSet::new();
    for expression in expressions {
        names.extend(expression.column_refs().into_iter().map(|c| c.name.clone()));
    }
    let (columns, fields): (Vec<_>, Vec<_>) =
        sources.into_iter().filter(|(_, field)| names.contains(field.name())).unzip();
    (columns, Arc::new(arrow_schema::Schema::new(fields)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_come_back() {
        for zone in [Zone::UTC, Zone::Fixed(-12_600), Zone::Named(chrono_tz::Asia::Shanghai)] {
            assert_eq!(Zone::parse(&zone_text(zone)), Some(zone));
        }
    }
}
