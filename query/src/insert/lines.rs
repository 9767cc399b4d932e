//! Lines of the line protocol as writes.

use std::sync::Arc;

use model::{Code, ColumnDef, ColumnId, DatabaseInfo, Error, Result, StableInfo, Value, Zone};

use super::gather::Gather;
use super::{InsertPlan, InsertTarget, TargetKind};
use crate::lines::Line;
use crate::literal::{LiteralContext, Raw, parse_value};

/// The writes of `lines` into `database`, whose super tables have what the lines need. A child that is not there is
/// created with its first row. Fields that a line does not name are not written.
///
/// # Errors
/// [`Code::TableNotExist`] without the super table, [`Code::InvalidColumn`] without one of its columns; the codes of
/// values and times. Nothing is written then.
pub fn plan_lines(
    lines: &[Line],
    database: &Arc<DatabaseInfo>,
    now_ns: i64,
    stable: impl Fn(&str) -> Option<Arc<StableInfo>>,
) -> Result<InsertPlan> {
    let precision = database.options.precision;
    let literals = LiteralContext::new(precision, Zone::UTC, now_ns);
    let mut gather = Gather::default();
    for line in lines {
        let stable =
            stable(&line.measurement).ok_or_else(|| Error::with(Code::TableNotExist, &line.measurement))?;
        let (schema, name) = (Arc::clone(&stable.schema), line.table());
        let tags = schema.tags.iter().map(|tag| tag_value(line, tag, &literals)).collect::<Result<_>>()?;
        let time = match line.time_ns {
            None => precision.ticks_from_ns(now_ns).to_string(),
            // Finer times than the database keeps are cut.
            Some(ns) => (ns / i128::from(precision.ns_per_tick())).to_string(),
        };
        let mut places = vec![0];
        for (name, _) in &line.fields {
            let (place, _) = schema.column(name).ok_or_else(|| Error::with(Code::InvalidColumn, name))?;
            places.push(place);
        }
        places.sort_unstable();
        let target =
            InsertTarget { database: Arc::clone(database), kind: TargetKind::Child(Arc::clone(&stable)) };
        let index = gather.relation(target, &name);
        let (relation, rows) = gather.relation_and_rows(index)?;
        let table = relation.table(&name, Some(tags))?;
        let slot = relation.tables.get(table).map(|table| table.slot);
        let batch = relation.batch(slot, &places)?;
        let Some(into) = relation.batches.get_mut(batch) else { continue };
        for (column, place) in into.columns.iter_mut().zip(&places) {
            let Some(def) = schema.columns.get(*place) else { continue };
            let field = line.fields.iter().find(|(name, _)| *name == def.name).map(|(_, field)| field);
            let raw = match field {
                Some(field) if field.hex => Raw::Hex(&field.text),
                Some(field) if field.quoted => Raw::Quoted(&field.text),
                Some(field) => Raw::Bare(&field.text),
                None => Raw::Bare(&time),
            };
            column.append(raw, &literals).map_err(|misfit| match def.id {
                ColumnId::TIMESTAMP => Error::of(Code::TimestampOutOfRange),
                _ => misfit.into_error(raw.text(), &def.name),
            })?;
        }
        let end = into.rows();
        relation.close_run(batch, table, end, *rows);
        *rows += 1;
    }
    gather.finish(now_ns)
}

/// A tag of the child of a line, NULL where the line does not name it.
fn tag_value(line: &Line, tag: &ColumnDef, literals: &LiteralContext) -> Result<Value> {
    match line.tags.iter().find(|(name, _)| *name == tag.name) {
        Some((_, value)) => parse_value(tag.data_type, Raw::Quoted(value), literals)
            .map_err(|misfit| misfit.into_error(value, &tag.name)),
        None => Ok(Value::Null),
    }
}
