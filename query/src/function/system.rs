//! Functions that tell of the session and the server.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::lit;
use model::{DataType, Result, Zone};

use crate::function::Call;
use crate::plan::expr::Binder;
use crate::plan::grid::standard_offset;
use crate::plan::types::{Ty, Typed};

/// Connectors parse `major.minor.patch.build` and want at least 3.3.
const VERSION: &str = "3.3.6.0";

pub(super) fn knows(name: &str) -> bool {
    matches!(
        name,
        "database"
            | "server_version"
            | "client_version"
            | "server_status"
            | "current_user"
            | "user"
            | "timezone"
    )
}

pub(super) fn bind(binder: &Binder<'_, '_>, call: &Call<'_>) -> Result<Typed> {
    call.count(0, 0)?;
    let session = binder.cx.session;
    let text = |text: &str| Typed::new(lit(text), Ty::plain(DataType::Varchar(256)));
    Ok(match call.name {
        "database" => {
            Typed::new(lit(ScalarValue::Utf8(session.database.clone())), Ty::plain(DataType::Varchar(65)))
        }
        "server_status" => Typed::new(lit(1_i32), Ty::plain(DataType::Int)),
        "current_user" | "user" => text(&session.user),
        "timezone" => {
            let seconds = standard_offset(session.zone, session.now_ns);
            let sign = if seconds < 0 { '-' } else { '+' };
            let minutes = seconds.abs() / 60;
            let offset = format!("{sign}{:02}{:02}", minutes / 60, minutes % 60);
            match session.zone {
                Zone::Named(tz) => text(&format!("{} ({offset})", tz.name())),
                Zone::Fixed(0) => text("UTC (UTC, +0000)"),
                Zone::Fixed(_) => text(&format!("UTC{offset} ({offset})")),
            }
        }
        _ => text(VERSION),
    })
}
