//! Topics: what they refuse, what they deliver, and that they outlive changes of their table.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Int32Type, Int64Type};
use arrow::record_batch::RecordBatch;
use model::{Code, DataType, Result, Value, Zone};
use query::ast::TopicSource;
use query::source::{RelationKind, ScanColumn};
use query::topic::{ChildFilter, CompiledTopic, TopicDefinition};

use crate::shard::array;
use crate::store::Store;

fn store() -> Store {
    let mut store = Store::new(Zone::UTC);
    for sql in [
        "CREATE DATABASE er KEEP 36500",
        "USE er",
        "CREATE STABLE m (ts TIMESTAMP, c1 INT, c2 DOUBLE, c3 VARCHAR(10)) TAGS (g INT, loc NCHAR(8))",
        "CREATE TABLE d1 USING m TAGS (1,'a') d2 USING m TAGS (2,'b')",
        "CREATE TABLE n (ts TIMESTAMP, v INT, s VARCHAR(5))",
    ] {
        store.run(sql).unwrap();
    }
    store
}

fn create(store: &Store, sql: &str) -> Result<CompiledTopic> {
    let topic = store.topic(sql)?;
    let TopicSource::Query(query) = &topic.source else { panic!("no SELECT: {sql}") };
    CompiledTopic::create(query, &topic.sql, &store.relations(query)?, &store.session)
}

fn children(store: &Store, sql: &str) -> Result<ChildFilter> {
    let topic = store.topic(sql)?;
    let TopicSource::Stable { name, filter } = &topic.source else { panic!("no STABLE: {sql}") };
    let relation = store.relation(name)?;
    ChildFilter::create(filter.as_ref(), &topic.sql, &relation, &store.session)
}

#[test]
fn refuses_what_a_topic_may_not_contain() {
    let store = store();
    for (select, code) in [
        ("select avg(c1) from m", Code::InvalidTopicQuery),
        ("select first(ts) from m", Code::InvalidTopicQuery),
        ("select last_row(*) from m", Code::InvalidTopicQuery),
        ("select top(c1,1) from m", Code::InvalidTopicQuery),
        ("select distinct c1 from m", Code::InvalidTopicQuery),
        ("select c1 from m order by ts", Code::InvalidTopicQuery),
        ("select c1 from m limit 1", Code::InvalidTopicQuery),
        ("select _wstart, count(*) from m interval(1s)", Code::InvalidTopicQuery),
        ("select count(*) from d1 session(ts, 1s)", Code::InvalidTopicQuery),
        ("select count(*) from d1 state_window(c1)", Code::InvalidTopicQuery),
        ("select count(*) from d1 event_window start with c1 > 0 end with c1 < 0", Code::InvalidTopicQuery),
        ("select _wstart, avg(c1) from m interval(1s) fill(null)", Code::FillRange),
        ("select * from (select ts, c1 from m)", Code::InvalidTopicQuery),
        ("select server_version()", Code::InvalidTopicQuery),
        ("select nope from m", Code::InvalidColumn),
        ("select ts from m where count(c1) > 1", Code::NoAggregation),
        ("select _wstart from m", Code::WindowPseudoColumn),
    ] {
        let error = create(&store, &format!("create topic e1 as {select}")).expect_err(select);
        assert_eq!(error.code(), code, "{select}: {error}");
    }
    for select in [
        "select now() as n2, c1 from m",
        "select c1 from m where c1 > 'abc'",
        "select * from m where ts > now - 1d",
        "select abs(c1), tbname, g from m",
        "select 1 from n",
    ] {
        create(&store, &format!("create topic e1 as {select}")).unwrap_or_else(|e| panic!("{select}: {e}"));
    }
}

#[test]
fn expands_the_star_at_creation() {
    let store = store();
    let names = |sql: &str| -> Vec<String> {
        create(&store, sql).unwrap().columns().iter().map(|c| c.name.clone()).collect()
    };
    assert_eq!(names("create topic t as select * from m"), ["ts", "c1", "c2", "c3", "g", "loc"]);
    assert_eq!(names("create topic t as select * from d1"), ["ts", "c1", "c2", "c3"]);
    let topic = create(&store, "create topic t as select c3, loc from m").unwrap();
    assert_eq!(topic.columns()[1].data_type, DataType::NChar(8));
}

/// A batch with the columns that the topic wants, from (name of the column by id, values).
fn batch(topic: &CompiledTopic, values: &dyn Fn(ScanColumn) -> Vec<Value>) -> RecordBatch {
    let schema = topic.input_schema();
    let columns: Vec<ArrayRef> = topic
        .required()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| array(&values(*column), field.data_type()))
        .collect();
    RecordBatch::try_new(schema, columns).unwrap()
}

#[test]
fn filters_and_projects_and_outlives_renames() {
    let store = store();
    let topic =
        create(&store, "create topic t as select ts, c1 * 2 as twice, tbname from m where c1 > 1 and g = 1")
            .unwrap();
    // Through the log and back: the definition is all that is needed.
    let text = serde_json::to_string(topic.definition()).unwrap();
    let definition: TopicDefinition = serde_json::from_str(&text).unwrap();
    let topic = CompiledTopic::compile(definition).unwrap();

    let RelationKind::Stable(stable) = store.relation(&query::ast::ObjectName::new(None, "m")).unwrap().kind
    else {
        panic!("m is a super table")
    };
    let c1 = stable.schema.column("c1").unwrap().1.id;
    let values = |column: ScanColumn| match column {
        ScanColumn::Column(id) if id == c1 => vec![Value::Int(1), Value::Int(2), Value::Null, Value::Int(4)],
        ScanColumn::Column(_) => (1..=4).map(Value::Timestamp).collect(),
        ScanColumn::Tag(_) => vec![Value::Int(1), Value::Int(1), Value::Int(1), Value::Int(2)],
        ScanColumn::Tbname => vec![Value::Text("d1".into()); 4],
    };
    let rows = topic.evaluate(&batch(&topic, &values)).unwrap();
    assert_eq!(rows.num_rows(), 1);
    assert_eq!(
        arrow::compute::cast(rows.column(0), &arrow_schema::DataType::Int64)
            .unwrap()
            .as_primitive::<Int64Type>()
            .value(0),
        2
    );
    assert_eq!(rows.column(1).as_primitive::<arrow::datatypes::Float64Type>().value(0), 4.0);
    assert_eq!(rows.column(2).as_string::<i32>().value(0), "d1");

    // A dropped column is a column of NULLs: nothing passes a comparison with it.
    let none = |column: ScanColumn| match column {
        ScanColumn::Column(id) if id == c1 => vec![Value::Null; 2],
        ScanColumn::Column(_) => vec![Value::Timestamp(1); 2],
        ScanColumn::Tag(_) => vec![Value::Int(1); 2],
        ScanColumn::Tbname => vec![Value::Text("d1".into()); 2],
    };
    assert_eq!(topic.evaluate(&batch(&topic, &none)).unwrap().num_rows(), 0);
}

#[test]
fn passes_whole_batches_untouched() {
    let store = store();
    let topic = create(&store, "create topic t as select c1 from m where c1 > 0").unwrap();
    let input = batch(&topic, &|_| (1..=3).map(Value::Int).collect());
    let output = topic.evaluate(&input).unwrap();
    assert_eq!(output.column(0).as_primitive::<Int32Type>().values(), &[1, 2, 3]);
    let shared =
        input.column(0).to_data().buffers()[0].as_ptr() == output.column(0).to_data().buffers()[0].as_ptr();
    assert!(shared, "a projection of columns copies nothing");
}

#[test]
fn conditions_on_children() {
    let store = store();
    for (condition, code, text) in [
        ("c1 > 0", Code::Syntax, "Columns are forbidden in where clause"),
        ("ts > 0", Code::Syntax, "Columns are forbidden in where clause"),
        ("nope > 0", Code::Syntax, "Invalid column name"),
        ("count(g) > 0", Code::NoAggregation, "There mustn't be aggregation"),
    ] {
        let error =
            children(&store, &format!("create topic e1 as stable m where {condition}")).expect_err(condition);
        assert_eq!((error.code(), error.message()), (code, text), "{condition}");
    }
    let error = children(&store, "create topic e1 as stable d1").expect_err("a child");
    assert_eq!(error.code(), Code::StableNotExist);

    for (condition, expected) in [
        ("where g > 1", [false, true]),
        ("where tbname = 'd1'", [true, false]),
        ("where 2 > 1", [true, true]),
        ("where false", [false, false]),
        ("where g", [true, true]),
        ("where not (loc = 'a')", [false, true]),
        ("", [true, true]),
    ] {
        let filter = children(&store, &format!("create topic e1 as stable m {condition}")).unwrap();
        let filter = ChildFilter::compile(filter.definition().clone()).unwrap();
        let relation = store.relation(&query::ast::ObjectName::new(None, "m")).unwrap();
        let RelationKind::Stable(stable) = &relation.kind else { panic!("m is a super table") };
        let request = query::source::TableListRequest { stable: stable.uid, filter: None };
        let mut tables = Vec::new();
        for shard in &relation.shards {
            tables.extend(shard.tables(request.clone()).unwrap());
        }
        tables.sort_by_key(|t| t.uid);
        let ids: Vec<_> = stable.schema.tags.iter().map(|t| t.id).collect();
        let batch = query::operator::table_batch(&tables, &ids, filter.required(), &filter.schema()).unwrap();
        let found: Vec<bool> = filter.matches(&batch).unwrap().iter().map(|v| v.unwrap()).collect();
        assert_eq!(found, expected, "{condition}");
        let _ = Arc::clone(&filter.schema());
    }
}
