//! `tidemark sql`: scripts, and the interactive shell.

mod complete;
mod repl;
mod run;
mod script;
mod split;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use clap::Args;
use model::{Code, Error, Place, Result, Zone};

use super::common::{ConnectArgs, Signals, machine_zone, parse_zone, print_error, quoted};
use super::output::{Format, Printer};
use super::subscribe::statement::Ended;
use run::Runner;
use script::Script;

/// `tidemark sql`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without -s and -f statements are read from the terminal, or from what is piped in: each runs as\n\
                        soon as it is complete. End them with `;`, or with `\\G` for one value a line.\n\n\
                        Rows go to stdout, errors and notes to stderr. A script stops at its first error, exit\n\
                        status 1. Beside SQL there is `subscribe TOPIC -g GROUP;`, whose -h tells more.\n\n\
                        tidemark sql -d power -s 'SELECT count(*) FROM meters'\n\
                        tidemark sql -f schema.sql && tidemark sql -s 'SHOW DATABASES' -o json"
)]
pub struct SqlArgs {
    /// Current database, which has to be there
    #[arg(short = 'd', long = "database", value_name = "DB", default_value = "", hide_default_value = true)]
    pub database: String,
    /// Run these statements, separated by `;`
    #[arg(short = 's', long = "statements", value_name = "STATEMENTS", conflicts_with = "file")]
    pub statements: Option<String>,
    /// Run the statements in this file; `-` is stdin
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<String>,
    /// How rows are printed
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Format,
    /// Go on after an error; the exit status is 1 all the same
    #[arg(long = "continue")]
    pub go_on: bool,
    /// Zone of times without an offset and of times shown [default: UTC in scripts, else the machine's]
    #[arg(long = "tz", value_name = "ZONE", value_parser = parse_zone)]
    pub zone: Option<String>,
    /// Server and user
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Runs it.
pub(super) async fn run(args: SqlArgs) -> Result<ExitCode> {
    let script = match (&args.statements, args.file.as_deref()) {
        (Some(statements), _) => Some(Script::of(statements)),
        (None, Some("-")) => Some(Script::of_stdin()?),
        (None, Some(path)) => Some(Script::of(&std::fs::read_to_string(path).map_err(|e| {
            Error::text(Code::Io, format!("cannot read the script: path={path} cause={e}")).caused_by(e)
        })?)),
        (None, None) if !io::stdin().is_terminal() => Some(Script::of_stdin()?),
        (None, None) => None,
    };
    let default_zone = if script.is_some() { "UTC".to_owned() } else { machine_zone() };
    let zone_name = args.zone.clone().unwrap_or(default_zone);
    let zone = Zone::parse(&zone_name).unwrap_or_default();
    let connection = args.connect.connect(&args.database, &zone_name).await?;
    if !args.database.is_empty() {
        // Else nothing would say that it is not there before a statement needs it, and then in other words.
        connection.sql(&format!("USE {}", quoted(&args.database))).await?;
    }
    let runner = Runner {
        connection,
        format: args.output,
        zone,
        signals: Signals::new()?,
        connect: args.connect,
        interactive: script.is_none(),
    };
    match script {
        Some(script) => {
            let origin = match (&args.statements, args.file.as_deref()) {
                (Some(_), _) => Origin::Argument,
                (None, Some("-") | None) => Origin::File("stdin"),
                (None, Some(path)) => Origin::File(path),
            };
            run_script(runner, script, origin, args.go_on).await
        }
        None => repl::run(runner).await.map(|()| ExitCode::SUCCESS),
    }
}

/// Where a script came from, as errors name it.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// `-s`
    Argument,
    File(&'a str),
}

/// The error of statement `number` of a script, with the place where its reader finds it.
fn located(error: Error, origin: Origin<'_>, number: usize, start: Place) -> Error {
    let place = error.place();
    let location = match origin {
        Origin::Argument => match place {
            Some(place) => format!("at statement {number}, {place}"),
            None => format!("in statement {number}"),
        },
        Origin::File(name) => match place {
            Some(place) => format!("at {name}, {}", place.in_whole(start)),
            None => format!("in the statement at {name}, {start}"),
        },
    };
    error.located(location)
}

/// Runs statement after statement; stops at the first error, which decides the exit status, or goes on.
async fn run_script(
    mut runner: Runner,
    mut script: Script,
    origin: Origin<'_>,
    go_on: bool,
) -> Result<ExitCode> {
    let mut printer = Printer::new(io::BufWriter::new(io::stdout()), runner.format, runner.zone);
    let mut code = ExitCode::SUCCESS;
    let mut number = 0;
    while let Some(statement) = runner.next(&mut script).await? {
        number += 1;
        let done = runner.execute(&statement, &mut printer).await;
        match done.map_err(|error| located(error, origin, number, statement.place)) {
            Ok(Ended::Done) => {}
            Ok(Ended::Faulty) if go_on => code = ExitCode::FAILURE,
            Ok(Ended::Faulty) => return Ok(ExitCode::FAILURE),
            Err(error) if go_on && !super::common::is_broken_pipe(&error) => {
                print_error(&error, false);
                code = ExitCode::FAILURE;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_where_the_script_has_them() {
        let script = "-- tables\nselect 1;\n  select\n from;";
        let start = split::statements(script)[1].place;
        let text = |error: Error, origin| located(error, origin, 2, start).to_string();
        let wrong = || Error::of(Code::IncompleteSql).at(Place { line: 2, column: 6 });
        let first = || Error::of(Code::IncompleteSql).at(Place { line: 1, column: 7 });
        let file = Origin::File("a.sql");
        assert!(text(wrong(), file).ends_with("; at a.sql, line 4, column 6"), "{}", text(wrong(), file));
        assert!(text(first(), file).ends_with("; at a.sql, line 3, column 9"));
        assert!(text(wrong(), Origin::Argument).ends_with("; at statement 2, line 2, column 6"));
        let placeless = || Error::of(Code::IncompleteSql);
        assert!(text(placeless(), file).ends_with("; in the statement at a.sql, line 3, column 3"));
        assert!(text(placeless(), Origin::Argument).ends_with("; in statement 2"));
    }
}
