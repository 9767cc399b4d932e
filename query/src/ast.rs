//! What the parser makes of a statement: names and structure, nothing resolved.
//!
//! Names are as they count: folded to lower case unless they were quoted with backticks. INSERT has no tree, its
//! parser writes columns directly (see [`crate::insert`]).

use std::fmt;

use model::{
    ColumnStorage, Compression, DataType, DatabaseChange, DatabaseOptions, DurationLiteral, Encoding, Level,
    Place, TableSchema, Value,
};

/// `[db.]name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// The database, if named.
    pub database: Option<String>,
    /// The object.
    pub name: String,
    /// Where it stands.
    pub at: At,
}

impl ObjectName {
    /// A name that nobody wrote.
    #[must_use]
    pub fn new(database: Option<&str>, name: impl Into<String>) -> Self {
        Self { database: database.map(str::to_owned), name: name.into(), at: At::default() }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.database {
            Some(database) => write!(f, "{database}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// What the operator `->`, which takes a member out of a JSON tag, is called as a function. No function can be written so.
pub(crate) const JSON_MEMBER: &str = "->";

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// CREATE DATABASE
    CreateDatabase {
        /// IF NOT EXISTS
        if_not_exists: bool,
        /// Name.
        name: String,
        /// Options as given; the rest are defaults.
        options: Box<DatabaseOptions>,
    },
    /// ALTER DATABASE: the changes in the order given.
    AlterDatabase {
        /// Name.
        name: String,
        /// Each applied to the options in force; ranges are checked by the parser.
        changes: Vec<DatabaseChange>,
    },
    /// DROP DATABASE
    DropDatabase {
        /// IF EXISTS
        if_exists: bool,
        /// Name.
        name: String,
    },
    /// USE
    Use(String),
    /// FLUSH DATABASE
    FlushDatabase(String),
    /// TRIM DATABASE
    TrimDatabase(String),
    /// COMPACT DATABASE or COMPACT VGROUPS
    Compact(Compact),
    /// KILL COMPACT
    KillCompact(u64),
    /// TRIM DATABASE .. WAL
    TrimDatabaseWal(String),
    /// CREATE STABLE, or CREATE TABLE with TAGS
    CreateStable {
        /// IF NOT EXISTS
        if_not_exists: bool,
        /// Name.
        name: ObjectName,
        /// Data columns.
        columns: Vec<ColumnSpec>,
        /// Tags.
        tags: Vec<ColumnSpec>,
        /// Options.
        options: TableOptions,
    },
    /// CREATE TABLE without TAGS
    CreateTable {
        /// IF NOT EXISTS
        if_not_exists: bool,
        /// Name.
        name: ObjectName,
        /// Data columns.
        columns: Vec<ColumnSpec>,
        /// Options.
        options: TableOptions,
    },
    /// CREATE TABLE .. USING .., one or many
    CreateChildren(Vec<CreateChild>),
    /// DROP TABLE, one or many
    DropTables(Vec<DropTable>),
    /// DROP STABLE
    DropStable {
        /// IF EXISTS
        if_exists: bool,
        /// Name.
        name: ObjectName,
    },
    /// ALTER TABLE or ALTER STABLE
    AlterTable {
        /// Written as ALTER STABLE: the name must be a super table.
        stable: bool,
        /// Name.
        name: ObjectName,
        /// What.
        change: AlterTable,
    },
    /// DESCRIBE
    Describe(ObjectName),
    /// DELETE
    Delete {
        /// Table.
        table: ObjectName,
        /// WHERE.
        filter: Option<Expr>,
    },
    /// SELECT or UNION
    Query(Box<Query>),
    /// EXPLAIN
    Explain {
        /// ANALYZE
        analyze: bool,
        /// Of.
        query: Box<Query>,
    },
    /// CREATE TOPIC
    CreateTopic(CreateTopic),
    /// RELOAD TOPIC
    ReloadTopic(ReloadTopic),
    /// DROP TOPIC
    DropTopic {
        /// IF EXISTS
        if_exists: bool,
        /// FORCE
        force: bool,
        /// Name.
        name: String,
    },
    /// DROP CONSUMER GROUP
    DropConsumerGroup {
        /// IF EXISTS
        if_exists: bool,
        /// FORCE
        force: bool,
        /// Group.
        group: String,
        /// Topic.
        topic: String,
    },
    /// SHOW ..
    Show(Show),
    /// CREATE USER
    CreateUser {
        /// Name.
        name: String,
        /// Password in clear text; never logged.
        password: String,
    },
    /// ALTER USER .. PASS
    AlterUserPassword {
        /// Name.
        name: String,
        /// Password in clear text; never logged.
        password: String,
    },
    /// DROP USER
    DropUser {
        /// IF EXISTS
        if_exists: bool,
        /// Name.
        name: String,
    },
    /// GRANT and REVOKE
    Grant {
        /// GRANT, else REVOKE.
        give: bool,
        /// What.
        right: Right,
        /// To or from whom.
        user: String,
    },
    /// RESET QUERY CACHE: succeeds and does nothing.
    ResetQueryCache,
    /// ALTER ALL DNODES 'name' 'value'; the value is empty where none was given.
    AlterConfig {
        /// Setting.
        name: String,
        /// Value.
        value: String,
    },
}

/// A right of GRANT and REVOKE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Right {
    /// SUBSCRIBE ON topic
    Subscribe(String),
    /// READ, WRITE or ALL on `db.*`, or on `*.*` where there is no name.
    Database {
        /// Database.
        name: Option<String>,
        /// READ
        read: bool,
        /// WRITE
        write: bool,
    },
}

/// A column or tag in DDL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Name.
    pub name: String,
    /// Type.
    pub data_type: DataType,
    /// ENCODE
    pub encoding: Option<Encoding>,
    /// COMPRESS
    pub compression: Option<Compression>,
    /// LEVEL
    pub level: Option<Level>,
    /// PRIMARY KEY or COMPOSITE KEY
    pub is_key: bool,
}

/// The first schema of a table that is defined so.
#[must_use]
pub fn first_schema(columns: Vec<ColumnSpec>, tags: Vec<ColumnSpec>) -> TableSchema {
    let named = |specs: &[ColumnSpec]| specs.iter().map(|s| (s.name.clone(), s.data_type)).collect();
    let mut schema = TableSchema::new(named(&columns), named(&tags));
    for (column, spec) in schema.columns.iter_mut().zip(columns) {
        column.encoding = spec.encoding.or(column.encoding);
        column.compression = spec.compression.or(column.compression);
        column.level = spec.level.or(column.level);
        column.is_key = spec.is_key;
    }
    schema
}

/// Options behind a table definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// COMMENT
    pub comment: Option<String>,
    /// TTL in days
    pub ttl_days: Option<u32>,
}

/// One child of CREATE TABLE .. USING.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateChild {
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// Child.
    pub name: ObjectName,
    /// Super table.
    pub stable: ObjectName,
    /// Tags that the values are for; all in order where absent.
    pub tag_names: Option<Vec<String>>,
    /// Values.
    pub values: Vec<TagLiteral>,
    /// Options.
    pub options: TableOptions,
}

/// A tag value as written. What it means depends on the tag's type (see [`crate::literal`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagLiteral {
    /// Source text: without quotes and escapes where `quoted`, else the bare tokens (`-5`, `now + 1d`, `true`, and
    /// with its quotes `'2024-01-01' + 1d`).
    pub text: String,
    /// Whether it stood in quotes.
    pub quoted: bool,
    /// Whether it began with `\x` there, of which `text` has the `x`.
    pub hex: bool,
}

/// One table of DROP TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropTable {
    /// IF EXISTS
    pub if_exists: bool,
    /// Name.
    pub name: ObjectName,
}

/// A change of ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterTable {
    /// ADD COLUMN
    AddColumn(ColumnSpec),
    /// DROP COLUMN
    DropColumn(String),
    /// MODIFY COLUMN: a longer VARCHAR or NCHAR
    ModifyColumn {
        /// Column.
        name: String,
        /// New type.
        data_type: DataType,
    },
    /// MODIFY COLUMN .. ENCODE, COMPRESS, LEVEL
    ModifyStorage {
        /// Column.
        name: String,
        /// What is named.
        storage: ColumnStorage,
    },
    /// RENAME COLUMN
    RenameColumn {
        /// From.
        name: String,
        /// To.
        new_name: String,
    },
    /// ADD TAG
    AddTag(ColumnSpec),
    /// DROP TAG
    DropTag(String),
    /// MODIFY TAG
    ModifyTag {
        /// Tag.
        name: String,
        /// New type.
        data_type: DataType,
    },
    /// RENAME TAG
    RenameTag {
        /// From.
        name: String,
        /// To.
        new_name: String,
    },
    /// SET TAG, one or several
    SetTags(Vec<(String, TagLiteral)>),
    /// COMMENT, TTL
    Options(TableOptions),
}

/// CREATE TOPIC.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTopic {
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// Name.
    pub name: String,
    /// WITH META, ONLY META or neither.
    pub meta: TopicMeta,
    /// What it reads.
    pub source: TopicSource,
    /// The statement as written, for SHOW.
    pub sql: String,
}

/// RELOAD TOPIC.
#[derive(Clone, Debug, PartialEq)]
pub struct ReloadTopic {
    /// IF EXISTS
    pub if_exists: bool,
    /// Name.
    pub name: String,
    /// What it reads from now on.
    pub query: Box<Query>,
    /// The statement as written, for SHOW.
    pub sql: String,
}

/// Which kinds of records a topic shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopicMeta {
    /// Rows.
    #[default]
    Without,
    /// WITH META: rows and events.
    With,
    /// ONLY META: events.
    Only,
}

/// What a topic reads.
#[derive(Clone, Debug, PartialEq)]
pub enum TopicSource {
    /// AS SELECT
    Query(Box<Query>),
    /// AS STABLE .. [WHERE ..]
    Stable {
        /// Super table.
        name: ObjectName,
        /// On tags and tbname.
        filter: Option<Expr>,
    },
    /// AS DATABASE
    Database(String),
}

/// SHOW.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the statement of the same words")]
pub enum Show {
    Databases { user: bool, system: bool },
    Stables { database: Option<String>, like: Option<String> },
    Tables { kind: Option<ShowTableKind>, database: Option<String>, like: Option<String> },
    CreateDatabase(String),
    CreateTable(ObjectName),
    CreateStable(ObjectName),
    CreateTopic(String),
    Tags(ObjectName),
    Vgroups { database: Option<String> },
    Topics,
    Consumers,
    Subscriptions,
    Users,
    UserPrivileges,
    Variables { like: Option<String> },
    Compacts,
    Compact(u64),
}

/// What COMPACT merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compact {
    /// Database; `None` for the current one.
    pub database: Option<String>,
    /// VGROUPS IN; `None` for all.
    pub vgroups: Option<Vec<u64>>,
    /// START WITH
    pub start: Option<TimeText>,
    /// END WITH
    pub end: Option<TimeText>,
}

/// A time as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeText {
    /// Without quotes.
    pub text: String,
    /// Whether it stood in quotes.
    pub quoted: bool,
}

/// SHOW NORMAL TABLES or SHOW CHILD TABLES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ShowTableKind {
    Normal,
    Child,
}

/// A SELECT, or several under UNION, with what stands behind them.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// SELECT or UNION.
    pub body: SetExpr,
    /// ORDER BY
    pub order_by: Vec<OrderBy>,
    /// SLIMIT
    pub slimit: Option<Limit>,
    /// LIMIT
    pub limit: Option<Limit>,
}

/// SELECT, UNION, or a query in parentheses.
#[derive(Clone, Debug, PartialEq)]
pub enum SetExpr {
    /// SELECT
    Select(Box<Select>),
    /// UNION
    Union {
        /// UNION ALL
        all: bool,
        /// Left.
        left: Box<SetExpr>,
        /// Right.
        right: Box<SetExpr>,
    },
    /// ( query )
    Nested(Box<Query>),
}

/// LIMIT n [OFFSET m].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Rows at most; `None` for OFFSET alone.
    pub count: Option<u64>,
    /// Rows left out first.
    pub offset: u64,
}

/// One item of ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderBy {
    /// Expression, output name, or 1-based position.
    pub expr: Expr,
    /// DESC
    pub descending: bool,
    /// NULLS FIRST (true) or LAST; `None` where not said.
    pub nulls_first: Option<bool>,
}

/// One SELECT.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// DISTINCT
    pub distinct: bool,
    /// SELECT TAGS
    pub tags_only: bool,
    /// Select list.
    pub items: Vec<SelectItem>,
    /// FROM.
    pub from: Option<TableRef>,
    /// WHERE
    pub filter: Option<Expr>,
    /// PARTITION BY
    pub partition_by: Vec<PartitionBy>,
    /// INTERVAL and its kin.
    pub window: Option<Window>,
    /// FILL behind the window.
    pub fill: Option<Fill>,
    /// GROUP BY
    pub group_by: Vec<Expr>,
    /// HAVING
    pub having: Option<Expr>,
}

/// One item of the select list.
#[derive(Clone, Debug, PartialEq)]
pub enum SelectItem {
    /// `*`
    Wildcard,
    /// `t.*`
    QualifiedWildcard(String),
    /// An expression.
    Expr {
        /// It.
        expr: Expr,
        /// AS
        alias: Option<String>,
        /// Source text, lower-cased outside quotes: the column's name where there is no alias.
        text: String,
    },
}

/// One item of PARTITION BY.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionBy {
    /// Expression, alias or position.
    pub expr: Expr,
    /// Alias.
    pub alias: Option<String>,
}

/// FROM.
#[derive(Clone, Debug, PartialEq)]
pub enum TableRef {
    /// A table.
    Table {
        /// Name.
        name: ObjectName,
        /// Alias.
        alias: Option<String>,
    },
    /// A query in parentheses.
    Subquery {
        /// It.
        query: Box<Query>,
        /// Alias.
        alias: Option<String>,
    },
    /// JOIN, or a comma (an inner join with its condition in WHERE).
    Join {
        /// Left.
        left: Box<TableRef>,
        /// Right.
        right: Box<TableRef>,
        /// Kind.
        kind: JoinKind,
        /// ON
        on: Option<Expr>,
    },
}

/// Kinds of join that are planned. ASOF and WINDOW joins are refused by the parser as not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum JoinKind {
    Inner,
    LeftOuter,
    RightOuter,
    FullOuter,
    LeftSemi,
    RightSemi,
    LeftAnti,
    RightAnti,
}

/// A window clause.
#[derive(Clone, Debug, PartialEq)]
pub enum Window {
    /// INTERVAL
    Interval {
        /// Length.
        interval: WindowDuration,
        /// Offset.
        offset: Option<WindowDuration>,
        /// SLIDING
        sliding: Option<WindowDuration>,
    },
    /// A SESSION, STATE, EVENT or COUNT window, by its name. Only in the query of a topic, which may have no window at all;
    /// elsewhere the parser refuses them as not supported.
    NotBuilt(&'static str),
}

impl Window {
    /// The clause's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Interval { .. } => "INTERVAL",
            Self::NotBuilt(name) => name,
        }
    }
}

/// A duration in a window clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowDuration {
    /// `10s` or `'10s'`.
    Literal(DurationLiteral),
    /// A bare integer: ticks.
    Ticks(i64),
    /// AUTO (offset only).
    Auto,
}

/// FILL.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    /// NONE
    None,
    /// NULL, or NULL_F with `force`
    Null {
        /// NULL_F
        force: bool,
    },
    /// VALUE or VALUE_F
    Value {
        /// Constants.
        values: Vec<Expr>,
        /// VALUE_F
        force: bool,
    },
    /// PREV
    Prev,
    /// NEXT
    Next,
    /// LINEAR
    Linear,
}

/// Where in the statement something stands, so that an error can tell; `None` for what nobody wrote. It is no part of
/// what is meant: any two are equal, and the same column in two places is the same expression.
#[derive(Clone, Copy, Debug, Default)]
pub struct At(pub Option<Place>);

impl PartialEq for At {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for At {}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// `c`, `t.c`; pseudo columns too (`tbname`, `_wstart`, `_rowts`).
    Column {
        /// `t`
        qualifier: Option<String>,
        /// `c`
        name: String,
        /// Whether it stood in backticks (then it is no pseudo column).
        quoted: bool,
        /// Where it stands.
        at: At,
    },
    /// A literal: [`Value::Int`] ([`Value::UInt`] from 2^63), Double, Text, Bool or Null.
    Literal(Value),
    /// A duration as a value: BIGINT ticks.
    Duration(DurationLiteral),
    /// TIMESTAMP '...'
    TypedTimestamp(String),
    /// `-x`
    Negate(Box<Expr>),
    /// NOT x
    Not(Box<Expr>),
    /// x op y
    Binary {
        /// Left.
        left: Box<Expr>,
        /// Operator.
        op: BinaryOp,
        /// Right.
        right: Box<Expr>,
    },
    /// x [NOT] BETWEEN low AND high
    Between {
        /// x
        expr: Box<Expr>,
        /// NOT
        negated: bool,
        /// Low end, included.
        low: Box<Expr>,
        /// High end, included.
        high: Box<Expr>,
    },
    /// x [NOT] IN (..)
    InList {
        /// x
        expr: Box<Expr>,
        /// NOT
        negated: bool,
        /// Items.
        list: Vec<Expr>,
    },
    /// x IS [NOT] NULL
    IsNull {
        /// x
        expr: Box<Expr>,
        /// NOT
        negated: bool,
    },
    /// x [NOT] LIKE pattern
    Like {
        /// x
        expr: Box<Expr>,
        /// NOT
        negated: bool,
        /// Pattern.
        pattern: Box<Expr>,
    },
    /// x MATCH pattern, x NMATCH pattern
    Match {
        /// x
        expr: Box<Expr>,
        /// NMATCH
        negated: bool,
        /// Regular expression.
        pattern: Box<Expr>,
    },
    /// f(args); `count(*)` has one [`Expr::Star`]. `TRIM([side] r FROM s)` has the arguments side (`leading`,
    /// `trailing`, `both`), r, s; `TRIM(s)` has one. `POSITION(x IN s)` has x, s; `SUBSTR(s FROM p FOR n)` has s, p, n.
    /// `NOW` and `TODAY` without parentheses are calls too.
    Function {
        /// Lower case.
        name: String,
        /// Arguments.
        args: Vec<Expr>,
        /// Where its name stands.
        at: At,
    },
    /// `*` as an argument.
    Star,
    /// CAST(x AS type)
    Cast {
        /// x
        expr: Box<Expr>,
        /// Type; VARCHAR and NCHAR without length carry 0.
        data_type: DataType,
    },
    /// CASE
    Case {
        /// CASE x
        operand: Option<Box<Expr>>,
        /// WHEN a THEN b
        branches: Vec<(Expr, Expr)>,
        /// ELSE
        otherwise: Option<Box<Expr>>,
    },
}

/// Binary operators, each with its own meaning for NULL (see the planner).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Or,
    And,
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
    BitAnd,
    BitOr,
    Plus,
    Minus,
    Multiply,
    Divide,
    Modulo,
}
