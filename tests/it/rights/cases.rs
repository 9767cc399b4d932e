//! The table of statements. `{db}` and `{topic}` are what they are about, `{role}` is who gives them.

/// Allowed.
const OK: u16 = 0;
/// Permission denied or target object not exist.
const DENIED: u16 = 0x2644;
/// Insufficient privilege for operation.
const PRIVILEGE: u16 = 0x0303;

/// A statement, and the code that each role of [`super::people::ROLES`] gets.
pub struct Case {
    pub sql: &'static str,
    pub codes: [u16; 7],
}

/// Code of those that know of the database by a right of its own kind: reader, writer, owner, past; the others do not.
const fn seen(reader: u16, writer: u16, owner: u16, past: u16, root: u16) -> [u16; 7] {
    [DENIED, reader, writer, DENIED, owner, past, root]
}

/// Who sees the database.
const SEES: [u16; 7] = seen(OK, OK, OK, OK, OK);
const READS: [u16; 7] = seen(OK, DENIED, OK, DENIED, OK);
const WRITES: [u16; 7] = seen(DENIED, OK, DENIED, DENIED, OK);
/// Its owner is root.
const OWNS: [u16; 7] = seen(PRIVILEGE, PRIVILEGE, PRIVILEGE, PRIVILEGE, OK);
const ALL: [u16; 7] = [OK; 7];
const ROOT: [u16; 7] = [PRIVILEGE, PRIVILEGE, PRIVILEGE, PRIVILEGE, PRIVILEGE, PRIVILEGE, OK];

const fn case(sql: &'static str, codes: [u16; 7]) -> Case {
    Case { sql, codes }
}

const fn on_topic(subscriber: u16, owner: u16, past: u16, root: u16) -> [u16; 7] {
    [PRIVILEGE, PRIVILEGE, PRIVILEGE, subscriber, owner, past, root]
}

/// What INSERT is is seen before there is a tree.
pub const INSERTS: &[Case] = &[
    case("INSERT INTO {db}.t VALUES (now, 1)", WRITES),
    case("INSERT INTO {db}.i_{role} USING {db}.s TAGS (1) VALUES (now, 1)", WRITES),
];

pub const CASES: &[Case] = &[
    case("CREATE DATABASE made_{role}", ROOT),
    case("CREATE DATABASE IF NOT EXISTS {db}", ROOT),
    case("ALTER DATABASE {db} WAL_RETENTION_PERIOD 7200", OWNS),
    case("DROP DATABASE gone", seen(PRIVILEGE, PRIVILEGE, PRIVILEGE, DENIED, OK)),
    case("FLUSH DATABASE {db}", WRITES),
    case("TRIM DATABASE {db}", WRITES),
    case("TRIM DATABASE {db} WAL", OWNS),
    case("COMPACT {db}.VGROUPS IN (99999)", seen(DENIED, 0x0503, DENIED, DENIED, 0x0503)),
    case("KILL COMPACT 99", [0x0118; 7]),
    case("CREATE STABLE {db}.s_{role} (ts TIMESTAMP, v INT) TAGS (g INT)", WRITES),
    case("CREATE TABLE {db}.n_{role} (ts TIMESTAMP, v INT)", WRITES),
    case("CREATE TABLE {db}.c_{role} USING {db}.s TAGS (1)", WRITES),
    case("DROP TABLE IF EXISTS {db}.x_{role}", WRITES),
    case("DROP STABLE IF EXISTS {db}.y_{role}", WRITES),
    case("ALTER TABLE {db}.t COMMENT '{role}'", WRITES),
    case("ALTER STABLE {db}.s COMMENT '{role}'", WRITES),
    case("DESCRIBE {db}.t", seen(OK, OK, OK, DENIED, OK)),
    case("DELETE FROM {db}.t WHERE ts < 1000", WRITES),
    case("DELETE FROM {db}.s WHERE ts < 1000 AND g = 5", WRITES),
    case("SELECT * FROM {db}.t", READS),
    case("SELECT tbname FROM {db}.s", READS),
    case("EXPLAIN SELECT * FROM {db}.t", READS),
    case("CREATE TOPIC q_{role} AS SELECT ts, v FROM {db}.t", READS),
    case("CREATE TOPIC s_{role} AS STABLE {db}.s", READS),
    case("CREATE TOPIC d_{role} AS DATABASE {db}", READS),
    case("CREATE TOPIC IF NOT EXISTS {topic} AS DATABASE {db}", [DENIED, 0x03E0, DENIED, OK, OK, OK, OK]),
    case("RELOAD TOPIC z_{role} AS SELECT ts FROM {db}.t", on_topic(PRIVILEGE, OK, DENIED, OK)),
    case("DROP TOPIC z_{role}", on_topic(PRIVILEGE, OK, OK, OK)),
    case("DROP TOPIC FORCE {topic}_", on_topic(PRIVILEGE, PRIVILEGE, PRIVILEGE, 0x03E1)),
    case("DROP TOPIC IF EXISTS {topic}_", ALL),
    case("DROP CONSUMER GROUP g ON {topic}", on_topic(PRIVILEGE, 0x03E8, 0x03E8, 0x03E8)),
    case("CREATE USER u_{role} PASS 'Secret-1'", ROOT),
    case("ALTER USER other PASS 'Secret-2'", ROOT),
    case("ALTER USER nosuch PASS 'Secret-2'", [0x0303, 0x0303, 0x0303, 0x0303, 0x0303, 0x0303, 0x0351]),
    case("DROP USER IF EXISTS nosuch", ROOT),
    case("GRANT READ ON {db}.* TO other", OWNS),
    case("REVOKE READ ON {db}.* FROM other", OWNS),
    case("GRANT READ ON *.* TO other", ROOT),
    case("REVOKE READ ON *.* FROM other", ROOT),
    case("GRANT SUBSCRIBE ON {topic} TO other", on_topic(PRIVILEGE, OK, OK, OK)),
    case("REVOKE SUBSCRIBE ON {topic} FROM other", on_topic(PRIVILEGE, OK, OK, OK)),
    case("RESET QUERY CACHE", ALL),
    case("ALTER ALL DNODES 'tmqMaxTopicNum' '50'", ROOT),
    case("SHOW DATABASES", ALL),
    case("SHOW {db}.STABLES", SEES),
    case("SHOW {db}.TABLES", SEES),
    case("SHOW CREATE DATABASE {db}", SEES),
    case("SHOW CREATE TABLE {db}.t", READS),
    case("SHOW CREATE STABLE {db}.s", READS),
    case("SHOW CREATE TOPIC {topic}", on_topic(OK, OK, OK, OK)),
    case("SHOW TAGS FROM {db}.c", READS),
    case("SHOW {db}.VGROUPS", SEES),
    case("SHOW VGROUPS", [0x2616; 7]),
    case("SHOW TOPICS", ALL),
    case("SHOW CONSUMERS", ALL),
    case("SHOW SUBSCRIPTIONS", ALL),
    case("SHOW USERS", ALL),
    case("SHOW USER PRIVILEGES", ALL),
    case("SHOW VARIABLES", ALL),
    case("SHOW COMPACTS", ALL),
    case("SHOW COMPACT 99", ALL),
    // Last: it changes what the others mean.
    case("USE {db}", SEES),
];
