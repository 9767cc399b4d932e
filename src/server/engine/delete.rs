//! DELETE.

use model::{Error, Result, TableUid};
use query::ast::{Expr, ObjectName};
use query::plan::plan_delete;
use query::source::{Relation, RelationKind, Shard as _, TableListRequest};
use vnode::{DeleteRequest, DeleteTarget};

use super::names::Purpose;
use super::{Engine, Outcome, StatementContext};
use crate::server::sessions::Session;

impl Engine {
    pub(super) async fn delete(
        &self,
        session: &Session,
        cx: &StatementContext,
        table: &ObjectName,
        filter: Option<&Expr>,
    ) -> Result<Outcome> {
        let database = self.database_of(cx, table)?;
        self.may_write(session, database)?;
        let relation = self.relation(session, cx, table, Purpose::Delete)?;
        let plan = plan_delete(filter, &relation, &self.plan_session(session, cx))?;
        if plan.range.is_empty() {
            return Ok(Outcome::Affected(0));
        }
        let Relation { database, kind, .. } = relation;
        let mut affected_rows = 0;
        match kind {
            RelationKind::Stable(stable) => {
                for &vgroup in &database.vgroups {
                    let vnode = self.shard(vgroup)?;
                    let target = match &plan.children {
                        None => DeleteTarget::Stable(stable.uid),
                        Some(children) => {
                            let request =
                                TableListRequest { stable: stable.uid, filter: Some(children.clone()) };
                            let tables: Vec<TableUid> =
                                vnode.tables(request)?.iter().map(|t| t.uid).collect();
                            if tables.is_empty() {
                                continue;
                            }
                            DeleteTarget::Children { stable: stable.uid, tables }
                        }
                    };
                    let outcome = vnode
                        .delete(DeleteRequest { target, range: plan.range, origin: session.origin })
                        .await?;
                    affected_rows += outcome.affected_rows;
                }
            }
            RelationKind::Child { table, .. } | RelationKind::Normal(table) => {
                let vnode = self.shard(Self::vgroup_for(&database, &table.name)?)?;
                let target = DeleteTarget::Table(table.name.clone());
                affected_rows = vnode
                    .delete(DeleteRequest { target, range: plan.range, origin: session.origin })
                    .await?
                    .affected_rows;
            }
            RelationKind::System { .. } => return Err(Error::of(model::Code::SystemTable)),
        }
        Ok(Outcome::Affected(affected_rows))
    }
}
