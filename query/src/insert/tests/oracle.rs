//! Captured INSERTs: affected rows and errors as TDengine gave them.

use super::*;

/// Lines that are known to differ, with the reason. One may leave this list, none enters it unseen.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// What the setup needs and Tidemark does not have.
const UNSUPPORTED_COLUMNS: &[&str] = &[", vb VARBINARY(8), g GEOMETRY(64)"];

#[test]
fn captured_inserts() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/oracle/sql.jsonl");
    let lines = std::fs::read_to_string(path).unwrap();
    let (mut tried, mut skipped) = (0, 0);
    let mut complaints = BTreeMap::new();
    for line in lines.lines() {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        let sql = json["sql"].as_str().unwrap();
        let setup: Vec<&str> = json["setup"].as_array().unwrap().iter().filter_map(|s| s.as_str()).collect();
        let zone = json.get("zone").and_then(|z| z.as_str()).map_or(Zone::UTC, |z| Zone::parse(z).unwrap());
        let id = json["id"].as_str().unwrap();
        let mut fake = Fake::default();
        let context = InsertContext { zone, ..context() };
        // INSERTs of a setup succeeded when captured.
        let mut known = true;
        for statement in setup {
            let statement = UNSUPPORTED_COLUMNS.iter().fold(statement.to_owned(), |s, c| s.replace(c, ""));
            known = known && prepare(&mut fake, &context, &statement, id, &mut complaints);
        }
        if !parser::is_insert(sql) {
            continue;
        }
        if !known || [" vb)", ",vb)", ",g)"].iter().any(|c| sql.contains(c)) {
            skipped += 1;
            continue;
        }
        tried += 1;
        let answer = match parse_insert(sql, &context, &mut fake) {
            Ok(plan) => Ok(plan.affected),
            Err(error) => Err((format!("0x{:04X}", error.code().number()), error.message().to_owned())),
        };
        if matches!(&answer, Err((code, _)) if code == "0x0100") {
            continue;
        }
        let captured = match json.get("error") {
            None => Ok(json["affected"].as_u64().unwrap()),
            Some(error) => Err((
                error["code"].as_str().unwrap().to_owned(),
                error["message"].as_str().unwrap().to_owned(),
            )),
        };
        // Out of range: ours adds the time and the table; and KEEP is the fake's, longer than the capture's.
        let told_more = match (&answer, &captured) {
            (Err((code, text)), Err((_, start))) => {
                code == "0x060B" && text.starts_with(&format!("{start}: "))
            }
            (Ok(_), Err((code, _))) => code == "0x060B",
            _ => false,
        };
        if answer != captured && !told_more {
            complaints.insert(id.to_owned(), format!("{sql}: {answer:?}, captured {captured:?}"));
        }
    }
    assert!(tried > 150, "{tried} tried");
    assert!(skipped < 60, "{skipped} skipped");
    for (id, _) in EXCEPTIONS {
        assert!(complaints.remove(*id).is_some(), "{id} is as captured: take it off the list");
    }
    assert!(complaints.is_empty(), "{} differ: {complaints:#?}", complaints.len());
}

/// Runs one statement of a setup. False where it needs what is not supported.
fn prepare(
    fake: &mut Fake,
    context: &InsertContext<'_>,
    sql: &str,
    id: &str,
    complaints: &mut BTreeMap<String, String>,
) -> bool {
    if parser::is_insert(sql) {
        match parse_insert(sql, context, fake) {
            Ok(plan) => {
                check_invariants(&plan, &fake.keys());
                for (block, database) in
                    plan.writes.iter().flat_map(|w| w.blocks.iter().map(|b| (b, &w.database)))
                {
                    let stable =
                        fake.stables.values().find(|s| Some(s.uid) == block.stable).map(|s| s.name.clone());
                    for run in block.runs.iter().filter(|_| stable.is_some()) {
                        let key = (database.name.clone(), run.table.clone());
                        fake.children.insert(key, stable.clone().unwrap());
                    }
                }
            }
            Err(error) if error.code() == Code::NotSupported => return false,
            Err(error) if error.code() == Code::TableNotExist => return false,
            Err(error) if [": vb", ": g"].iter().any(|c| error.message().ends_with(c)) => return false,
            Err(error) => {
                complaints.insert(format!("{id} setup"), format!("{sql}: {error}"));
            }
        }
        return true;
    }
    match parser::parse(sql) {
        Ok(Statement::CreateDatabase { name, options, .. }) => {
            fake.database(&name, options.precision, options.vgroups);
            true
        }
        Ok(Statement::CreateStable { .. } | Statement::CreateTable { .. } | Statement::CreateChildren(_)) => {
            fake.run(sql);
            true
        }
        Ok(_) => true,
        Err(_) => false,
    }
}
