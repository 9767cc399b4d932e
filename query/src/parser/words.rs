//! Words that are no names unless they stand in backticks.

/// Sorted. What TDengine 3.3 reserves: words that became reserved later (`type`, `text`, `rows`, `source`,
/// `password`) name columns in older applications.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "ACCOUNT", "ACCOUNTS", "ADD", "AGGREGATE", "ALIVE", "ALL", "ALTER", "ANALYZE", "AND", "ANODE",
    "ANODES", "ANOMALY_WINDOW", "ANTI", "APPS", "ARBGROUPS", "AS", "ASC", "ASOF", "AUTO", "BALANCE",
    "BASE", "BATCH_SCAN", "BETWEEN", "BIGINT", "BINARY", "BNODE", "BNODES", "BOOL", "BOTH", "BUFFER",
    "BUFSIZE", "BWLIMIT", "BY", "CACHE", "CACHEMODEL", "CACHESIZE", "CASE", "CAST", "CHILD",
    "CLIENT_VERSION", "CLUSTER", "COLUMN", "COMMENT", "COMP", "COMPACT", "COMPACTS", "COMPACT_INTERVAL",
    "COMPACT_TIME_OFFSET", "COMPACT_TIME_RANGE", "CONNECTION", "CONNECTIONS", "CONNS", "CONSUMER",
    "CONSUMERS", "CONTAINS", "COUNT", "COUNT_WINDOW", "CREATE", "CREATEDB", "CURRENT_USER", "DATABASE",
    "DATABASES", "DBS", "DELETE", "DELETE_MARK", "DESC", "DESCRIBE", "DISK_INFO", "DISTINCT",
    "DISTRIBUTED", "DNODE", "DNODES", "DOUBLE", "DROP", "DURATION", "ELSE", "ENABLE", "ENCRYPTIONS",
    "ENCRYPT_ALGORITHM", "ENCRYPT_KEY", "END", "EVENT_WINDOW", "EVERY", "EXISTS", "EXPLAIN", "FILE",
    "FILL", "FILL_HISTORY", "FIRST", "FLOAT", "FLUSH", "FOR", "FORCE", "FROM", "FULL", "FUNCTION",
    "FUNCTIONS", "GEOMETRY", "GRANT", "GRANTS", "GROUP", "HASH_JOIN", "HAVING", "HOST", "IF", "IGNORE",
    "IMPORT", "IN", "INDEX", "INDEXES", "INNER", "INSERT", "INT", "INTEGER", "INTERVAL", "INTO", "IS",
    "IS_IMPORT", "JLIMIT", "JOIN", "JSON", "KEEP", "KEEP_TIME_OFFSET", "KEY", "KILL", "LANGUAGE", "LAST",
    "LAST_ROW", "LEADER", "LEADING", "LEFT", "LICENCES", "LIKE", "LIMIT", "LINEAR", "LOCAL", "LOGS",
    "MACHINES", "MATCH", "MAXROWS", "MAX_DELAY", "MERGE", "META", "MINROWS", "MINUS", "MNODE", "MNODES",
    "MODIFY", "MODULES", "NCHAR", "NEAR", "NEXT", "NMATCH", "NONE", "NORMAL", "NOT", "NOW",
    "NO_BATCH_SCAN", "NULL", "NULLS", "NULL_F", "OFFSET", "ON", "ONLY", "OR", "ORDER", "OUTER",
    "OUTPUTTYPE", "PAGES", "PAGESIZE", "PARALLEL", "PARA_TABLES_SORT", "PARTITION", "PARTITION_FIRST",
    "PASS", "PAUSE", "PI", "PORT", "POSITION", "PPS", "PRECISION", "PREV", "PRIMARY", "PRIVILEGES",
    "QNODE", "QNODES", "QTIME", "QUERIES", "QUERY", "RAND", "RANGE", "RATIO", "READ", "RECURSIVE",
    "REDISTRIBUTE", "RENAME", "REPLACE", "REPLICA", "RESET", "RESTORE", "RESUME", "RETENTIONS", "REVOKE",
    "RIGHT", "ROLLUP", "S3MIGRATE", "SCHEMALESS", "SCORES", "SELECT", "SEMI", "SERVER_STATUS",
    "SERVER_VERSION", "SESSION", "SET", "SHOW", "SINGLE_STABLE", "SKIP_TSMA", "SLIDING", "SLIMIT", "SMA",
    "SMALLDATA_TS_SORT", "SMALLINT", "SNODE", "SNODES", "SOFFSET", "SOME", "SORT_FOR_GROUP", "SPLIT",
    "STABLE", "STABLES", "START", "STATE", "STATE_WINDOW", "STORAGE", "STREAM", "STREAMS", "STRICT",
    "STT_TRIGGER", "SUBSCRIBE", "SUBSCRIPTIONS", "SUBSTR", "SUBSTRING", "SYSINFO", "SYSTEM", "TABLE",
    "TABLES", "TABLE_PREFIX", "TABLE_SUFFIX", "TAG", "TAGS", "TBNAME", "THEN", "TIMESTAMP", "TIMEZONE",
    "TINYINT", "TO", "TODAY", "TOPIC", "TOPICS", "TRAILING", "TRANSACTION", "TRANSACTIONS", "TRIM",
    "TSDB_PAGESIZE", "TSERIES", "TSMA", "TSMAS", "TTL", "UNION", "UNSAFE", "UNSIGNED", "UNTREATED",
    "UPDATE", "USE", "USER", "USERS", "USING", "VALUE", "VALUES", "VALUE_F", "VARBINARY", "VARCHAR",
    "VARIABLES", "VERBOSE", "VGROUP", "VGROUPS", "VIEW", "VIEWS", "VNODE", "VNODES", "WAL_FSYNC_PERIOD",
    "WAL_LEVEL", "WAL_RETENTION_PERIOD", "WAL_RETENTION_SIZE", "WAL_ROLL_PERIOD", "WAL_SEGMENT_SIZE",
    "WATERMARK", "WHEN", "WHERE", "WINDOW", "WINDOW_CLOSE", "WINDOW_OFFSET", "WITH", "WRITE",
];

/// Sorted. Of the reserved words those that name columns, tags and tables all the same: no clause begins with them where
/// a name may stand. Only as an alias without AS, where a clause may follow, they are not names.
#[rustfmt::skip]
const NAMES_TOO: &[&str] = &[
    "ACCOUNT", "ACCOUNTS", "ALIVE", "APPS", "BUFFER", "CACHE", "CACHEMODEL", "CACHESIZE", "CHILD",
    "CLUSTER", "COMMENT", "COMP", "COMPACT", "COMPACTS", "CONNECTION", "CONNECTIONS", "CONNS",
    "CONSUMER", "CONSUMERS", "CREATEDB", "DBS", "DISK_INFO", "DNODE", "DNODES", "DURATION", "ENABLE",
    "ENCRYPTIONS", "FILE", "FUNCTION", "FUNCTIONS", "GRANTS", "HOST", "INDEX", "INDEXES", "KEEP",
    "KEEP_TIME_OFFSET", "KEY", "LANGUAGE", "LEADER", "LICENCES", "LOCAL", "LOGS", "MACHINES", "MAXROWS",
    "MINROWS", "MNODE", "MNODES", "MODULES", "NORMAL", "PAGES", "PAGESIZE", "PASS", "PORT", "PPS",
    "PRECISION", "PRIVILEGES", "QNODE", "QNODES", "QTIME", "QUERIES", "QUERY", "RATIO", "READ",
    "REPLICA", "RETENTIONS", "SCORES", "SINGLE_STABLE", "START", "STATE", "STORAGE", "STREAM",
    "STREAMS", "STRICT", "STT_TRIGGER", "SUBSCRIPTIONS", "SYSINFO", "SYSTEM", "TABLE_PREFIX",
    "TABLE_SUFFIX", "TAG", "TOPIC", "TOPICS", "TRANSACTION", "TRANSACTIONS", "TSDB_PAGESIZE", "TSERIES",
    "TTL", "UPDATE", "USER", "USERS", "VALUE", "VARIABLES", "VERBOSE", "VGROUP", "VGROUPS", "VIEW",
    "VIEWS", "VNODE", "VNODES", "WRITE",
];

/// Words that begin a clause of SELECT.
#[rustfmt::skip]
const CLAUSES: &[&str] = &[
    "FILL", "FROM", "GROUP", "HAVING", "INTERVAL", "LIMIT", "OFFSET", "ORDER", "PARTITION", "SLIDING", "SLIMIT",
    "SOFFSET", "UNION", "WHERE",
];

/// How the clauses of SELECT follow each other.
pub(crate) const CLAUSE_ORDER: &str = "clauses stand in this order: FROM, WHERE, PARTITION BY, INTERVAL with SLIDING and \
    FILL, GROUP BY, HAVING, UNION, ORDER BY, SLIMIT with SOFFSET, LIMIT with OFFSET";

/// What HAVING without groups is told.
pub(crate) const HAVING_HINT: &str =
    "HAVING tests groups: add GROUP BY or PARTITION BY, or write the condition into WHERE";

/// Pseudo columns: readable as columns, not usable as names.
#[rustfmt::skip]
const PSEUDO: &[&str] = &[
    "_c0", "_irowts", "_irowts_origin", "_isfilled", "_qduration", "_qend", "_qstart", "_rowts", "_tags",
    "_wduration", "_wend", "_wstart",
];

/// Reserved words that may stand before `(` as a function's name.
#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    "CLIENT_VERSION", "COUNT", "CURRENT_USER", "DATABASE", "FIRST", "IF", "LAST", "LAST_ROW", "NOW", "PI",
    "RAND", "REPLACE", "SERVER_STATUS", "SERVER_VERSION", "SUBSTR", "SUBSTRING", "TIMEZONE", "TODAY",
    "USER",
];

/// Functions that are called with nothing in the parentheses.
#[rustfmt::skip]
const WITHOUT_ARGUMENTS: &[&str] = &[
    "client_version", "current_user", "database", "now", "pi", "rand", "server_status", "server_version",
    "timezone", "today", "user",
];

/// Functions that take `*`.
const WITH_STAR: &[&str] = &["count", "first", "last", "last_row"];

/// Aggregate, selection and row-sequence functions: what a topic's query must not have.
#[rustfmt::skip]
const AGGREGATES: &[&str] = &[
    "apercentile", "avg", "bottom", "cols", "corr", "count", "csum", "derivative", "diff", "elapsed",
    "fill_forward", "first", "group_concat", "histogram", "hyperloglog", "interp", "irate", "lag", "last",
    "last_row", "lead", "leastsquares", "mavg", "max", "min", "mode", "percentile", "sample", "spread",
    "statecount", "stateduration", "std", "stddev", "stddev_pop", "stddev_samp", "sum", "tail", "top",
    "twa", "unique", "var_pop", "var_samp", "variance",
];

/// Whether `word` (any case) may stand where nothing but a name can.
pub(crate) fn is_name(word: &str) -> bool {
    let upper = word.to_ascii_uppercase();
    !is_reserved(word) || NAMES_TOO.binary_search(&upper.as_str()).is_ok()
}

/// Whether `word` (any case) cannot be a name where something else may stand too.
pub(crate) fn is_reserved(word: &str) -> bool {
    let upper = word.to_ascii_uppercase();
    RESERVED.binary_search(&upper.as_str()).is_ok() || is_pseudo(word)
}

/// Whether `word` (any case) begins a clause of SELECT.
pub(crate) fn begins_clause(word: &str) -> bool {
    CLAUSES.iter().any(|clause| clause.eq_ignore_ascii_case(word))
}

/// Whether `word` is a pseudo column that starts with an underscore.
pub(crate) fn is_pseudo(word: &str) -> bool {
    word.starts_with('_') && PSEUDO.iter().any(|p| p.eq_ignore_ascii_case(word))
}

/// Whether `word` before `(` calls a function.
pub(crate) fn is_callable(word: &str) -> bool {
    FUNCTIONS.iter().any(|f| f.eq_ignore_ascii_case(word)) || !is_reserved(word)
}

/// Whether the function `name` (lower case) takes no arguments at all.
pub(crate) fn may_be_empty(name: &str) -> bool {
    WITHOUT_ARGUMENTS.contains(&name)
}

/// Whether the function `name` (lower case) takes `*`.
pub(crate) fn takes_star(name: &str) -> bool {
    WITH_STAR.contains(&name)
}

/// Whether the function `name` (lower case) makes one row, or a sequence, of several.
pub(crate) fn is_aggregate(name: &str) -> bool {
    AGGREGATES.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_for_the_search() {
        for list in [RESERVED, AGGREGATES, NAMES_TOO] {
            assert!(list.is_sorted(), "{list:?}");
        }
    }

    #[test]
    fn old_column_names_stay_usable() {
        for name in
            ["type", "text", "rows", "row", "source", "password", "schema", "open", "close", "current"]
        {
            assert!(!is_reserved(name), "{name}");
        }
        for word in ["select", "Value", "TTL", "_WSTART", "tbname"] {
            assert!(is_reserved(word), "{word}");
        }
        assert!(NAMES_TOO.iter().all(|word| is_reserved(word)), "else they need not stand there");
        assert!(
            is_name("Value") && is_name("ttl") && is_name("v") && !is_name("Select") && !is_name("tbname")
        );
        assert!(is_callable("count") && is_callable("abs") && !is_callable("select"));
    }
}
