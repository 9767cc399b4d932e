//! Commands against the state, without anything around it: codes in their order, numbers never used again, one log one
//! state.

use std::sync::Arc;

use model::{
    Code, ColumnId, ColumnStorage, DataType, DatabaseChange, DatabaseOptions, Encoding, SchemaVersion,
    TopicId, Version, VgroupId,
};
use proptest::prelude::*;

use super::*;
use crate::shards::{StableDdl, TopicDdl};
use crate::spec::{
    Access, ColumnSpec, DatabaseSpec, DropGroupSpec, DropTopicSpec, Grant, ReloadSpec, StableChange,
    StableSpec, TopicKind, TopicMeta, TopicSpec,
};

const NOW: i64 = 1_700_000_000_000_000_000;

struct Db {
    state: MnodeState,
    version: u64,
}

fn by() -> String {
    ROOT.to_owned()
}

impl Db {
    fn new() -> Self {
        let mut db = Self { state: MnodeState::default(), version: 0 };
        db.run(Command::Bootstrap { root_hash: "h".into() }).unwrap();
        db
    }

    /// Checks and applies, and carries what it logged to its end.
    fn run(&mut self, command: Command) -> Result<Vec<Event>> {
        let events = self.log(command)?;
        let ids: Vec<u64> = self.state.intents().map(|i| i.id).collect();
        for id in ids {
            self.log(Command::FinishIntent { id })?;
        }
        Ok(events)
    }

    fn log(&mut self, command: Command) -> Result<Vec<Event>> {
        self.state.check(&command)?;
        self.version += 1;
        Ok(self.state.apply(Version(self.version), &command, NOW))
    }

    fn fails(&mut self, command: Command) -> Code {
        let before = self.state.clone();
        let code = self.run(command).unwrap_err().code();
        assert_eq!(self.state, before, "a refused command changes nothing");
        code
    }
}

fn create_database(name: &str, change: impl FnOnce(&mut DatabaseOptions)) -> Command {
    let mut options = DatabaseOptions::default();
    change(&mut options);
    Command::CreateDatabase {
        by: by(),
        spec: DatabaseSpec { name: name.into(), if_not_exists: false, options },
    }
}

fn drop_database(name: &str) -> Command {
    Command::DropDatabase { by: by(), name: name.into(), if_exists: false }
}

fn stable_spec(name: &str) -> StableSpec {
    StableSpec {
        database: "d".into(),
        name: name.into(),
        if_not_exists: false,
        columns: vec![
            ColumnSpec::new("ts", DataType::Timestamp),
            ColumnSpec::new("v", DataType::Varchar(10)),
        ],
        tags: vec![ColumnSpec::new("g", DataType::NChar(4))],
        comment: None,
    }
}

fn create_stable(spec: StableSpec) -> Command {
    Command::CreateStable { by: by(), spec }
}

fn alter(change: StableChange) -> Command {
    Command::AlterStable { by: by(), database: "d".into(), name: "m".into(), change }
}

fn topic_spec(name: &str, kind: TopicKind) -> TopicSpec {
    TopicSpec {
        name: name.into(),
        if_not_exists: false,
        database: "d".into(),
        kind,
        meta: TopicMeta::Without,
        sql: String::new(),
        schema_json: None,
        definition: String::new(),
    }
}

fn create_topic(name: &str, kind: TopicKind) -> Command {
    Command::CreateTopic { by: by(), spec: topic_spec(name, kind) }
}

fn drop_topic(name: &str, if_exists: bool) -> Command {
    Command::DropTopic { by: by(), spec: DropTopicSpec { name: name.into(), if_exists, force: false } }
}

fn create_user(name: &str) -> Command {
    Command::CreateUser { by: by(), name: name.into(), hash: "h".into(), sysinfo: true, createdb: true }
}

fn with_stable() -> Db {
    let mut db = Db::new();
    db.run(create_database("d", |_| ())).unwrap();
    db.run(create_stable(stable_spec("m"))).unwrap();
    db
}

#[test]
fn databases_and_their_codes() {
    let mut db = Db::new();
    db.run(create_database("d", |o| o.vgroups = 3)).unwrap();
    assert_eq!(db.fails(create_database("d", |_| ())), Code::DatabaseExists);
    assert_eq!(db.fails(create_database("a.b", |_| ())), Code::InvalidIdentifier);
    assert_eq!(db.fails(create_database(&"x".repeat(65), |_| ())), Code::DatabaseNameTooLong);
    assert_eq!(db.fails(create_database("e", |o| o.vgroups = 0)), Code::InvalidDatabaseOption);
    assert_eq!(db.fails(create_database("e", |o| o.replica = 3)), Code::NotSupported);
    assert_eq!(db.fails(drop_database("e")), Code::DatabaseNotExist);
    let options = DatabaseOptions::default();
    let again = DatabaseSpec { name: "d".into(), if_not_exists: true, options };
    let events = db.run(Command::CreateDatabase { by: by(), spec: again }).unwrap();
    assert!(matches!(events[..], [Event::Unchanged]));

    let change = |changes| Command::AlterDatabase { by: by(), name: "d".into(), changes };
    assert_eq!(db.fails(change(vec![DatabaseChange::WalLevel(1)])), Code::OptionsNotChanged);
    db.run(change(vec![DatabaseChange::WalLevel(2), DatabaseChange::WalRetentionPeriodS(7)])).unwrap();
    assert_eq!(db.state.catalog().database("d").unwrap().info.options.wal.retention_period_s, 7);
    db.run(create_topic("t", TopicKind::Database)).unwrap();
    assert_eq!(db.fails(change(vec![DatabaseChange::WalRetentionPeriodS(0)])), Code::WalRetentionZero);
    assert_eq!(db.fails(drop_database("d")), Code::TopicMustDrop);
    db.run(drop_topic("t", false)).unwrap();
    db.run(drop_database("d")).unwrap();
    assert_eq!(db.state.catalog().databases().count(), 0);
}

#[test]
fn numbers_are_never_used_again() {
    let mut db = Db::new();
    let mut vgroups = Vec::new();
    let mut topics = Vec::new();
    let mut stables = Vec::new();
    for _ in 0..3 {
        db.run(create_database("d", |o| o.vgroups = 2)).unwrap();
        db.run(create_stable(stable_spec("m"))).unwrap();
        db.run(create_topic("t", TopicKind::Stable("m".into()))).unwrap();
        let catalog = db.state.catalog();
        vgroups.extend(catalog.database("d").unwrap().info.vgroups.clone());
        topics.push(catalog.topic("t").unwrap().id);
        stables.push(catalog.stable("d", "m").unwrap().uid);
        db.run(drop_topic("t", false)).unwrap();
        db.run(drop_database("d")).unwrap();
    }
    assert_eq!(vgroups, (2..8).map(VgroupId).collect::<Vec<_>>(), "1 is the metadata group");
    assert_eq!(topics, (1..4).map(TopicId).collect::<Vec<_>>());
    assert!(stables.windows(2).all(|w| w[0] < w[1]));
}

#[test]
fn stable_definitions_and_their_codes() {
    let mut db = Db::new();
    let create = |change: &dyn Fn(&mut StableSpec)| {
        let mut spec = stable_spec("m");
        change(&mut spec);
        create_stable(spec)
    };
    assert_eq!(db.fails(create(&|_| ())), Code::DatabaseNotExist);
    db.run(create_database("d", |o| o.single_stable = true)).unwrap();
    let column = |name: &str, data_type| ColumnSpec::new(name, data_type);
    type Change<'a> = &'a dyn Fn(&mut StableSpec);
    let cases: [(Change<'_>, Code); 16] = [
        (&|s| s.columns.swap(0, 1), Code::FirstColumn),
        (&|s| s.columns.clear(), Code::FirstColumn),
        (&|s| s.columns.truncate(1), Code::ColumnCount),
        (&|s| s.columns.push(column("v", DataType::Int)), Code::DuplicateColumn),
        (&|s| s.tags.push(column("ts", DataType::Int)), Code::DuplicateColumn),
        (&|s| s.columns[1].data_type = DataType::Varchar(0), Code::ColumnLength),
        (&|s| s.columns[1].data_type = DataType::NChar(16_380), Code::ColumnLength),
        (&|s| s.tags[0].data_type = DataType::NChar(4_096), Code::ColumnLength),
        (
            &|s| s.columns.extend((0..4_095).map(|n| ColumnSpec::new(format!("c{n}"), DataType::Bool))),
            Code::TooManyColumns,
        ),
        (&|s| s.columns.push(column("w", DataType::Varchar(65_517))), Code::RowTooLong),
        (&|s| s.tags.clear(), Code::TagCount),
        (
            &|s| s.tags.extend((0..128).map(|n| ColumnSpec::new(format!("t{n}"), DataType::Bool))),
            Code::TagCount,
        ),
        (&|s| s.tags.push(column("h", DataType::Varchar(16_382))), Code::TagsTooLong),
        (&|s| s.comment = Some("x".repeat(1_025)), Code::CommentTooLong),
        (&|s| s.name = "x".repeat(193), Code::TableNameTooLong),
        (&|s| s.name = "a.b".into(), Code::InvalidIdentifier),
    ];
    for (n, (change, code)) in cases.into_iter().enumerate() {
        assert_eq!(db.fails(create(change)), code, "case {n}");
    }
    db.run(create(&|s| s.tags[0].data_type = DataType::Varchar(16_382))).unwrap();
    assert_eq!(db.fails(create(&|_| ())), Code::StableExists);
    assert!(matches!(db.run(create(&|s| s.if_not_exists = true)).unwrap()[..], [Event::Unchanged]));
    assert_eq!(db.fails(create(&|s| s.name = "n".into())), Code::SingleStableMode);
}

#[test]
fn alter_stable_rules_and_codes() {
    let mut db = with_stable();
    let column = ColumnSpec::new;
    let text = String::from;
    let cases = [
        (StableChange::AddColumn(column("v", DataType::Int)), Code::ColumnExists),
        (StableChange::AddColumn(column("g", DataType::Int)), Code::TagExists),
        (StableChange::AddColumn(column("w", DataType::Varchar(0))), Code::ColumnLength),
        (StableChange::AddColumn(column("w", DataType::Varchar(65_517))), Code::RowTooLong),
        (StableChange::AddTag(column("g", DataType::Int)), Code::TagExists),
        (StableChange::AddTag(column("ts", DataType::Int)), Code::ColumnExists),
        (StableChange::DropColumn(text("ts")), Code::PrimaryTimestampDrop),
        (StableChange::DropColumn(text("x")), Code::InvalidColumn),
        (StableChange::DropColumn(text("v")), Code::NothingLeft),
        (StableChange::DropTag(text("x")), Code::InvalidTag),
        (StableChange::DropTag(text("g")), Code::InvalidAlter),
        (
            StableChange::ModifyColumn { name: text("x"), data_type: DataType::Varchar(20) },
            Code::InvalidColumn,
        ),
        (StableChange::ModifyColumn { name: text("v"), data_type: DataType::Varchar(10) }, Code::AlterLength),
        (StableChange::ModifyColumn { name: text("v"), data_type: DataType::NChar(20) }, Code::AlterLength),
        (StableChange::ModifyTag { name: text("g"), data_type: DataType::NChar(3) }, Code::AlterLength),
        (StableChange::ModifyTag { name: text("g"), data_type: DataType::NChar(4_096) }, Code::ColumnLength),
        (
            StableChange::ModifyStorage {
                name: text("v"),
                storage: ColumnStorage { encoding: Some(Encoding::DeltaI), ..ColumnStorage::default() },
            },
            Code::InvalidEncoding,
        ),
        (
            StableChange::ModifyStorage { name: text("x"), storage: ColumnStorage::default() },
            Code::InvalidColumn,
        ),
        (StableChange::RenameColumn { name: text("v"), new_name: text("w") }, Code::InvalidAlter),
        (StableChange::RenameTag { name: text("x"), new_name: text("w") }, Code::TagNotExist),
        (StableChange::RenameTag { name: text("g"), new_name: text("v") }, Code::ColumnExists),
        (StableChange::Comment("x".repeat(1_025)), Code::CommentTooLong),
    ];
    for (change, code) in cases {
        let shown = format!("{change:?}");
        assert_eq!(db.fails(alter(change)), code, "{shown}");
    }
    let first = db.state.catalog().stable("d", "m").unwrap().clone();
    db.run(alter(StableChange::AddColumn(column("w", DataType::Int)))).unwrap();
    db.run(alter(StableChange::DropColumn(text("v")))).unwrap();
    db.run(alter(StableChange::AddColumn(column("v", DataType::Double)))).unwrap();
    db.run(alter(StableChange::ModifyTag { name: text("g"), data_type: DataType::NChar(5) })).unwrap();
    db.run(alter(StableChange::RenameTag { name: text("g"), new_name: text("h") })).unwrap();
    db.run(alter(StableChange::Comment(text("hello")))).unwrap();
    let now = db.state.catalog().stable("d", "m").unwrap();
    assert_eq!((now.uid, now.comment.as_deref()), (first.uid, Some("hello")));
    assert_eq!(now.schema.version, SchemaVersion(6), "a comment is no new schema");
    let v = now.schema.column("v").unwrap().1;
    assert_eq!(v.id, ColumnId(5), "a column made again is another one");
    assert_eq!(
        now.schema.tag("h").unwrap().1.id,
        first.schema.tag("g").unwrap().1.id,
        "a renamed one is not"
    );
    let missing = Command::AlterStable {
        by: by(),
        database: "d".into(),
        name: "nope".into(),
        change: StableChange::Comment(String::new()),
    };
    assert_eq!(db.fails(missing), Code::StableNotExist);
}

#[test]
fn topics_are_checked_in_the_order_of_the_specification() {
    let mut db = with_stable();
    db.run(create_database("zero", |o| o.wal.retention_period_s = 0)).unwrap();
    let query = || TopicKind::Query { of_stable: false };
    db.run(create_topic("t", query())).unwrap();
    // The name comes before everything, also before a database that is not there.
    let in_database = |name: &str, database: &str| {
        let mut spec = topic_spec(name, query());
        spec.database = database.into();
        Command::CreateTopic { by: by(), spec }
    };
    assert_eq!(db.fails(in_database("t", "nope")), Code::TopicExists);
    assert_eq!(db.fails(in_database("x", "nope")), Code::DatabaseNotExist);
    assert_eq!(db.fails(in_database("x", "zero")), Code::WalRetentionZero);
    db.run(Command::Set { by: by(), name: "tmqMaxTopicNum".into(), value: 2 }).unwrap();
    db.run(create_topic("u", TopicKind::Stable("m".into()))).unwrap();
    assert_eq!(db.fails(create_topic("x", TopicKind::Stable("nope".into()))), Code::TopicLimit);
    db.run(drop_topic("u", false)).unwrap();
    assert_eq!(db.fails(create_topic("x", TopicKind::Stable("nope".into()))), Code::StableNotExist);
    let mut spec = topic_spec("x", query());
    spec.meta = TopicMeta::With;
    assert_eq!(db.fails(Command::CreateTopic { by: by(), spec }), Code::TopicOptionInvalid);
    let mut spec = topic_spec("t", TopicKind::Database);
    spec.if_not_exists = true;
    assert!(matches!(db.run(Command::CreateTopic { by: by(), spec }).unwrap()[..], [Event::Unchanged]));
    assert_eq!(db.fails(drop_topic("x", false)), Code::TopicNotExist);
    assert!(matches!(db.run(drop_topic("x", true)).unwrap()[..], [Event::Unchanged]));
    // Literal names: case and colons count.
    db.run(create_topic("T :x", query())).unwrap();
    assert!(db.state.catalog().topic("T :x").is_ok());
}

#[test]
fn reload_keeps_identity_and_raises_the_definition() {
    let mut db = with_stable();
    db.run(create_topic("q", TopicKind::Query { of_stable: false })).unwrap();
    db.run(create_topic("s", TopicKind::Stable("m".into()))).unwrap();
    let reload = |name: &str, if_exists, database: &str| Command::ReloadTopic {
        by: by(),
        spec: ReloadSpec {
            name: name.into(),
            if_exists,
            database: database.into(),
            of_stable: true,
            sql: "new".into(),
            schema_json: Some("[]".into()),
            definition: "x".into(),
        },
    };
    assert_eq!(db.fails(reload("s", false, "d")), Code::TopicOptionInvalid);
    assert_eq!(db.fails(reload("q", false, "e")), Code::TopicOptionInvalid);
    assert_eq!(db.fails(reload("x", false, "d")), Code::TopicNotExist);
    assert!(matches!(db.run(reload("x", true, "d")).unwrap()[..], [Event::Unchanged]));
    let before = db.state.catalog().topic("q").unwrap().clone();
    db.run(reload("q", false, "d")).unwrap();
    let after = db.state.catalog().topic("q").unwrap();
    assert_eq!((after.id, after.create_time_ns), (before.id, before.create_time_ns));
    assert_eq!((after.definition_version, after.sql.as_str()), (2, "new"));
}

#[test]
fn drop_stable_minds_stable_topics_only() {
    let mut db = with_stable();
    db.run(create_topic("q", TopicKind::Query { of_stable: true })).unwrap();
    db.run(create_topic("s", TopicKind::Stable("m".into()))).unwrap();
    let drop =
        |if_exists| Command::DropStable { by: by(), database: "d".into(), name: "m".into(), if_exists };
    assert_eq!(db.fails(drop(false)), Code::TopicMustDrop);
    db.run(drop_topic("s", false)).unwrap();
    db.run(drop(false)).unwrap();
    assert_eq!(db.fails(drop(false)), Code::StableNotExist);
    assert!(matches!(db.run(drop(true)).unwrap()[..], [Event::Unchanged]));
}

#[test]
fn one_statement_at_a_time_on_a_database() {
    let mut db = with_stable();
    db.log(alter(StableChange::AddColumn(ColumnSpec::new("w", DataType::Int)))).unwrap();
    for command in [
        create_stable(stable_spec("n")),
        alter(StableChange::Comment("x".into())),
        create_topic("t", TopicKind::Database),
        Command::DropStable { by: by(), database: "d".into(), name: "m".into(), if_exists: false },
    ] {
        let error = db.state.check(&command).unwrap_err();
        assert_eq!(error.code(), Code::Conflict);
        assert!(error.may_retry());
    }
    // Another database is free; and this one may always be dropped.
    db.log(create_database("e", |_| ())).unwrap();
    assert_eq!(db.state.check(&create_database("e", |_| ())).unwrap_err().code(), Code::Conflict);
    db.log(drop_database("d")).unwrap();
    assert_eq!(db.state.intents().count(), 2, "the ALTER has gone with its database");
}

#[test]
fn undoing_a_create_leaves_nothing() {
    let mut db = with_stable();
    type IsKind = fn(&IntentKind) -> bool;
    let kinds: [(Command, IsKind); 3] = [
        (create_database("e", |_| ()), |k| matches!(k, IntentKind::CreateDatabase { .. })),
        (create_stable(stable_spec("n")), |k| matches!(k, IntentKind::Stable(StableDdl::Create(_)))),
        (create_topic("t", TopicKind::Database), |k| matches!(k, IntentKind::Topic(TopicDdl::Create(_)))),
    ];
    for (command, is_kind) in kinds {
        let catalog = Arc::clone(db.state.catalog());
        db.log(command.clone()).unwrap();
        let intent = db.state.intents().next().unwrap();
        assert!(is_kind(&intent.kind));
        assert_eq!(*db.state.catalog(), catalog, "not seen before it is finished");
        let id = intent.id;
        db.log(Command::UndoIntent { id }).unwrap();
        let events = db.log(Command::FinishIntent { id }).unwrap();
        assert!(matches!(events[..], [Event::IntentDone { undone: true, .. }]));
        assert_eq!(*db.state.catalog(), catalog);
        db.run(command).unwrap();
    }
    db.log(alter(StableChange::Comment("x".into()))).unwrap();
    let id = db.state.intents().next().unwrap().id;
    assert_eq!(db.state.check(&Command::UndoIntent { id }).unwrap_err().code(), Code::Internal);
    db.log(Command::FinishIntent { id }).unwrap();
    assert!(db.state.check(&Command::FinishIntent { id }).is_err(), "once");
}

#[test]
fn rights_come_from_root_creator_or_grant() {
    let mut db = with_stable();
    for user in ["u", "w"] {
        db.run(create_user(user)).unwrap();
    }
    let as_user = |name: &str, database: &str| {
        let mut spec = topic_spec(name, TopicKind::Database);
        spec.database = database.into();
        Command::CreateTopic { by: "u".into(), spec }
    };
    assert_eq!(db.fails(as_user("t", "d")), Code::PermissionDenied);
    assert_eq!(db.fails(as_user("t", "nodb")), Code::PermissionDenied, "as one that is not there");
    let grant = |give: bool, name: Option<&str>| {
        let grant =
            Grant::Database { name: name.map(Into::into), access: Access { read: true, write: false } };
        let (by, user) = (by(), "u".to_owned());
        if give { Command::Grant { by, user, grant } } else { Command::Revoke { by, user, grant } }
    };
    db.run(grant(true, Some("d"))).unwrap();
    db.run(as_user("t", "d")).unwrap();
    let own_topic = db.state.catalog().topic("t").unwrap().clone();
    assert!(db.state.may_subscribe("u", &own_topic));
    db.run(grant(false, Some("d"))).unwrap();
    assert!(db.state.may_subscribe("u", &own_topic), "its creator reads it all the same");
    assert!(db.state.sees_topic("u", &own_topic), "and it stays theirs");
    assert_eq!(db.fails(as_user("t2", "d")), Code::NoPrivilege);
    db.run(grant(true, None)).unwrap();
    db.run(as_user("t2", "d")).unwrap();
    let mut stable = stable_spec("n");
    let create = |spec: &StableSpec| Command::CreateStable { by: "u".into(), spec: spec.clone() };
    assert_eq!(db.fails(create(&stable)), Code::NoPrivilege, "reading is not writing");
    // A database of one's own.
    let options = DatabaseOptions::default();
    let own = DatabaseSpec { name: "own".into(), if_not_exists: false, options };
    db.run(Command::CreateDatabase { by: "u".into(), spec: own }).unwrap();
    stable.database = "own".into();
    db.run(create(&stable)).unwrap();

    let catalog = Arc::clone(db.state.catalog());
    let topic = catalog.topic("t").unwrap();
    assert!(db.state.may_subscribe("u", topic) && db.state.may_subscribe("root", topic));
    assert!(!db.state.may_subscribe("w", topic) && !db.state.may_subscribe("nobody", topic));
    // The creator grants too; a stranger does not.
    let subscribe =
        |by: &str| Command::Grant { by: by.into(), user: "w".into(), grant: Grant::Subscribe("t".into()) };
    assert_eq!(db.fails(subscribe("w")), Code::NoPrivilege);
    db.run(subscribe("u")).unwrap();
    assert!(db.state.may_subscribe("w", topic));
    let unknown = |user: &str, topic: &str| Command::Grant {
        by: by(),
        user: user.into(),
        grant: Grant::Subscribe(topic.into()),
    };
    assert_eq!(db.fails(unknown("w", "nope")), Code::TopicNotExist);
    assert_eq!(db.fails(unknown("nope", "t")), Code::UserNotExist);
    // Rights on a topic end with it.
    db.run(drop_topic("t", false)).unwrap();
    db.run(create_topic("t", TopicKind::Database)).unwrap();
    assert!(!db.state.may_subscribe("w", db.state.catalog().topic("t").unwrap()));
}

/// Whether a name is somebody's may not be told by any answer to who does not see it.
#[test]
fn what_is_not_seen_answers_as_what_is_not_there() {
    let mut db = with_stable();
    db.run(create_topic("t", TopicKind::Database)).unwrap();
    db.run(create_user("u")).unwrap();
    let by = || "u".to_owned();
    let database = |name: &str, if_exists| Command::DropDatabase { by: by(), name: name.into(), if_exists };
    let topic = |name: &str, if_exists| Command::DropTopic {
        by: by(),
        spec: DropTopicSpec { name: name.into(), if_exists, force: true },
    };
    let group = |topic: &str, if_exists| Command::DropGroup {
        by: by(),
        spec: DropGroupSpec { group: "g".into(), topic: topic.into(), if_exists, force: true },
    };
    for (there, not_there) in [
        (database("d", false), database("x", false)),
        (topic("t", false), topic("x", false)),
        (group("t", false), group("x", false)),
    ] {
        assert_eq!(db.fails(there), db.fails(not_there));
    }
    for dropped in [database("d", true), topic("t", true), group("t", true)] {
        assert!(matches!(db.run(dropped).unwrap()[..], [Event::Unchanged]));
    }
    assert!(
        db.state.catalog().database("d").is_ok() && db.state.catalog().topic("t").is_ok(),
        "nothing went"
    );
    // Nor does a topic that stands in the way of somebody's right tell its name.
    db.run(create_topic("secret", TopicKind::Stable("m".into()))).unwrap();
    let write = Grant::Database { name: Some("d".into()), access: Access { read: false, write: true } };
    db.run(Command::Grant { by: ROOT.to_owned(), user: by(), grant: write }).unwrap();
    let drop = |by| Command::DropStable { by, database: "d".into(), name: "m".into(), if_exists: false };
    let told = |by| db.state.check(&drop(by)).unwrap_err();
    let (hers, roots) = (told(by()), told(ROOT.to_owned()));
    assert_eq!((hers.code(), roots.code()), (Code::TopicMustDrop, Code::TopicMustDrop));
    assert!(!hers.to_string().contains("secret") && roots.to_string().contains("secret"), "{hers}; {roots}");
    let other = TopicId(99);
    let known = db.state.catalog().topic("t").unwrap().id;
    let code = |topic| db.state.check_offsets("u", topic, VgroupId(2)).unwrap_err().code();
    assert_eq!((code(known), code(other)), (Code::NoPrivilege, Code::NoPrivilege));
    assert_eq!(db.state.check_offsets("root", other, VgroupId(2)).unwrap_err().code(), Code::TopicNotExist);
    assert_eq!(db.state.check_offsets("root", known, VgroupId(99)).unwrap_err().code(), Code::InvalidVgroup);
}

#[test]
fn what_a_dropped_user_owned_is_not_the_next_ones_of_that_name() {
    let mut db = with_stable();
    db.run(create_user("u")).unwrap();
    let read = Grant::Database { name: None, access: Access { read: true, write: false } };
    db.run(Command::Grant { by: by(), user: "u".into(), grant: read }).unwrap();
    let create = Command::CreateTopic { by: "u".into(), spec: topic_spec("t", TopicKind::Database) };
    db.log(create.clone()).unwrap();
    let intent = db.state.intents().next().unwrap().id;
    let drop = || Command::DropUser { by: by(), name: "u".into(), if_exists: false };
    db.log(drop()).unwrap();
    db.log(Command::FinishIntent { id: intent }).unwrap();
    assert_eq!(db.state.catalog().topic("t").unwrap().creator, ROOT, "made after they had gone");
    db.run(drop_topic("t", false)).unwrap();
    db.run(create_user("u")).unwrap();
    let read = Grant::Database { name: None, access: Access { read: true, write: false } };
    db.run(Command::Grant { by: by(), user: "u".into(), grant: read }).unwrap();
    db.run(create).unwrap();
    assert_eq!(db.state.catalog().topic("t").unwrap().creator, "u");
    db.run(drop()).unwrap();
    db.run(create_user("u")).unwrap();
    let topic = db.state.catalog().topic("t").unwrap();
    assert!(!db.state.sees_topic("u", topic));
}

#[test]
fn users_and_their_codes() {
    let mut db = Db::new();
    db.run(create_user("u")).unwrap();
    assert_eq!(db.fails(create_user("u")), Code::UserExists);
    assert_eq!(db.fails(create_user("")), Code::InvalidUserName);
    assert_eq!(db.fails(create_user(&"x".repeat(24))), Code::NameOrPasswordTooLong);
    let drop = |name: &str, if_exists| Command::DropUser { by: by(), name: name.into(), if_exists };
    assert_eq!(db.fails(drop("root", false)), Code::InvalidOperation);
    assert_eq!(db.fails(drop("nope", false)), Code::UserNotExist);
    assert!(matches!(db.run(drop("nope", true)).unwrap()[..], [Event::Unchanged]));
    let alter = |by: &str, name: &str, hash: Option<&str>, enable| Command::AlterUser {
        by: by.into(),
        name: name.into(),
        hash: hash.map(Into::into),
        enable,
        sysinfo: None,
        createdb: None,
    };
    assert_eq!(db.fails(alter("u", "root", Some("x"), None)), Code::NoPrivilege);
    assert_eq!(db.fails(alter("u", "u", None, Some(true))), Code::NoPrivilege);
    assert_eq!(db.fails(alter("root", "root", None, Some(false))), Code::InvalidOperation);
    db.run(alter("u", "u", Some("x"), None)).unwrap();
    assert_eq!(db.state.user("u").unwrap().hash, "x");
    // A second start does not make root anew.
    db.run(Command::Bootstrap { root_hash: "other".into() }).unwrap();
    assert_eq!(db.state.user(ROOT).unwrap().hash, "h");
}

#[test]
fn settings_have_ranges() {
    let mut db = Db::new();
    let set = |name: &str, value| Command::Set { by: by(), name: name.into(), value };
    assert_eq!(db.state.setting(settings::TOPICS_MAX), 20);
    assert_eq!(db.state.setting(settings::REBALANCE_INTERVAL_S), 2);
    assert_eq!(db.fails(set("tmqMaxTopicNum", 0)), Code::OutOfRange);
    assert_eq!(db.fails(set("tmqMaxTopicNum", 10_001)), Code::OutOfRange);
    assert_eq!(db.fails(set("nope", 1)), Code::InvalidConfig);
    db.run(set("MQREBALANCEINTERVAL", 10_000)).unwrap();
    assert_eq!(db.state.setting(settings::REBALANCE_INTERVAL_S), 10_000);
}

#[test]
fn a_command_that_came_too_late_is_refused_when_applied() {
    let mut db = Db::new();
    db.run(create_database("d", |_| ())).unwrap();
    let before = db.state.clone();
    let events = db.state.apply(Version(99), &create_database("d", |_| ()), NOW);
    assert!(matches!(&events[..], [Event::Refused(e)] if e.code() == Code::DatabaseExists));
    assert_eq!(db.state.applied(), Version(99));
    db.state.applied = before.applied;
    assert_eq!(db.state, before);
}

#[test]
fn a_composite_key_comes_with_the_table_and_stays() {
    let mut db = Db::new();
    db.run(create_database("d", |_| ())).unwrap();
    let key = |name: &str, data_type| ColumnSpec { is_key: true, ..ColumnSpec::new(name, data_type) };
    let with = |columns: Vec<ColumnSpec>| {
        let mut spec = stable_spec("m");
        spec.columns.splice(1..1, columns);
        create_stable(spec)
    };
    let spec = ColumnSpec::new;
    let third = vec![spec("a", DataType::Int), key("k", DataType::Int)];
    assert_eq!(db.fails(with(third)), Code::KeyPosition);
    assert_eq!(db.fails(with(vec![key("k", DataType::Double)])), Code::KeyType);
    let command = with(vec![key("k", DataType::Varchar(4))]);
    assert_eq!(Command::decode(&command.encode().unwrap()).unwrap(), command);
    db.run(command).unwrap();
    for change in [
        StableChange::AddColumn(key("l", DataType::Int)),
        StableChange::DropColumn("k".into()),
        StableChange::ModifyColumn { name: "k".into(), data_type: DataType::Varchar(9) },
    ] {
        assert_eq!(db.fails(alter(change)), Code::KeyChange);
    }
    db.run(alter(StableChange::AddColumn(spec("w", DataType::Int)))).unwrap();
    let now = db.state.catalog().stable("d", "m").unwrap();
    assert_eq!(now.schema.key().map(|key| key.name.as_str()), Some("k"));
}

fn any_command() -> impl Strategy<Value = Command> {
    let name = || prop::sample::select(vec!["a", "b", "d"]);
    prop_oneof![
        name().prop_map(|n| create_database(n, |_| ())),
        name().prop_map(drop_database),
        name().prop_map(|n| create_stable(stable_spec(n))),
        name().prop_map(|n| alter(StableChange::AddColumn(ColumnSpec::new(n, DataType::Int)))),
        name().prop_map(|n| alter(StableChange::DropColumn(n.into()))),
        name().prop_map(|n| create_topic(n, TopicKind::Stable("a".into()))),
        name().prop_map(|n| drop_topic(n, true)),
        name().prop_map(create_user),
        name().prop_map(|n| Command::DropUser { by: by(), name: n.into(), if_exists: true }),
        (0..9_u64).prop_map(|id| Command::FinishIntent { id }),
        (0..9_u64).prop_map(|id| Command::UndoIntent { id }),
    ]
}

proptest! {
    /// Any log, sense or nonsense, gives one state, through bytes and through a snapshot in its middle.
    #[test]
    fn one_log_one_state(commands in prop::collection::vec(any_command(), 0..60), cut in 0_usize..60) {
        let apply = |state: &mut MnodeState, n: usize, command: &Command| {
            let events = state.apply(Version(n as u64), command, NOW);
            let before = state.catalog().databases().count();
            prop_assert!(!events.iter().any(|e| matches!(e, Event::Refused(_))) || before == state.catalog().databases().count());
            Ok(())
        };
        let mut one = MnodeState::default();
        let mut two = MnodeState::default();
        let root = Command::Bootstrap { root_hash: "h".into() };
        apply(&mut one, 0, &root)?;
        apply(&mut two, 0, &root)?;
        for (n, command) in commands.iter().enumerate() {
            apply(&mut one, n + 1, command)?;
            apply(&mut two, n + 1, &Command::decode(&command.encode().unwrap()).unwrap())?;
            if n == cut {
                let bytes = Snapshot { checkpoint: n, state: two }.encode().unwrap();
                two = Snapshot::<usize>::decode(&bytes).unwrap().state;
            }
        }
        prop_assert_eq!(one, two);
    }

    /// Bytes from elsewhere are an error, never a panic.
    #[test]
    fn decoding_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = Command::decode(&bytes);
        let _ = Snapshot::<u64>::decode(&bytes);
    }
}
