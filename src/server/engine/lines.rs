//! Lines of the line protocol: what they need is made as SQL would make it, then their rows are written.

use model::{Error, Result, TimeUnit, Zone};
use query::ast::{ObjectName, Statement, TableOptions};
use query::insert::plan_lines;
use query::lines::{self, Missing, Wanted};

use super::{Engine, StatementContext};
use crate::server::sessions::Session;

impl Engine {
    /// Writes lines into a database; answers the rows. `unit` is that of their times.
    ///
    /// # Errors
    /// What is wrong with a line: nothing is made or written then. What was made for lines whose rows are refused later
    /// stays; writing the same lines again is safe.
    pub async fn write_lines(
        &self,
        session: &Session,
        database: &str,
        text: &str,
        unit: TimeUnit,
    ) -> Result<u64> {
        self.may_write(session, database)?;
        let cx = self.context(Some(database.to_owned()), Zone::UTC);
        let lines = lines::parse(text, unit)?;
        let wanted = lines::wanted(&lines)?;
        let shared = loop {
            let shared = self.lines.read().await;
            if wanted
                .iter()
                .map(|wanted| self.lacking(database, wanted))
                .all(|lacking| matches!(lacking, Ok(None)))
            {
                break shared;
            }
            drop(shared);
            let _alone = self.lines.write().await;
            for wanted in &wanted {
                self.fit(session, &cx, database, wanted).await?;
            }
        };
        let catalog = self.mnode.catalog();
        let found = catalog.database(database)?;
        let plan = plan_lines(&lines, &found.info, cx.now_ns, |name| found.stables.get(name).cloned())?;
        let written = self.carry_out(session, plan, cx.now_ns).await;
        drop(shared);
        written
    }

    /// Makes what a super table lacks, one thing after another: others may be at the same.
    async fn fit(
        &self,
        session: &Session,
        cx: &StatementContext,
        database: &str,
        wanted: &Wanted,
    ) -> Result<()> {
        let mut tried: Option<(Statement, Option<Error>)> = None;
        while let Some(statement) = self.lacking(database, wanted)? {
            if let Some((_, error)) = tried.take().filter(|(last, _)| *last == statement) {
                return Err(error.unwrap_or_else(|| Error::internal("what was just made is not there")));
            }
            // Whether it failed for being made by someone else meanwhile, the next look tells.
            let error = self.define(session, cx, statement.clone()).await.err();
            tried = Some((statement, error));
        }
        Ok(())
    }

    /// The statement that makes the first thing that a super table lacks.
    fn lacking(&self, database: &str, wanted: &Wanted) -> Result<Option<Statement>> {
        let catalog = self.mnode.catalog();
        let stable = catalog.database(database)?.stables.get(&wanted.stable);
        let name = ObjectName::new(Some(database), &wanted.stable);
        Ok(match wanted.missing(stable.map(|stable| &*stable.schema))? {
            Missing::Stable { columns, tags } => {
                let options = TableOptions::default();
                Some(Statement::CreateStable { if_not_exists: true, name, columns, tags, options })
            }
            Missing::Parts(parts) => {
                let alter = |change| Statement::AlterTable { stable: true, name, change };
                parts.into_iter().next().map(alter)
            }
        })
    }
}
