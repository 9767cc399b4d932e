//! Who comes: one user for each kind of right, on one database with one topic.

use client::{ConnectOptions, Connection, Error};

use crate::support::{Server, connect, query};

pub const PASSWORD: &str = "Secret-1";
/// The database that there is, and one that there is not. Names of one length, so that places in messages agree.
pub const DATABASES: [&str; 2] = ["plant", "qlant"];
/// The same of topics.
pub const TOPICS: [&str; 2] = ["pumps", "qumps"];

/// What each user has, in the order of the columns of the tables.
pub const ROLES: [&str; 7] = ["nobody", "reader", "writer", "subscriber", "owner", "past", "root"];

/// The topic that a role's statements are about: its own where it owns one.
pub fn topic_of(role: &str) -> &'static str {
    if role == "past" { "pasts" } else { TOPICS[0] }
}

pub async fn connect_as(server: &Server, user: &str) -> Connection {
    let options = ConnectOptions {
        host: server.address().to_owned(),
        user: user.to_owned(),
        password: PASSWORD.to_owned(),
        ..ConnectOptions::default()
    };
    Connection::connect(options).await.expect("the user logs in")
}

/// What a statement is refused with.
pub async fn refused(connection: &Connection, sql: &str) -> Option<Error> {
    match connection.sql(sql).await {
        Ok(result) => result.rows().await.err(),
        Err(error) => Some(error),
    }
}

/// A server with all of them: `reader` may read, `writer` may write, `subscriber` may subscribe to the topic of `owner`, who
/// may read; `past` owns a topic and may not read any more.
pub struct People {
    pub server: Server,
    pub root: Connection,
    /// In the order of [`ROLES`].
    pub connections: Vec<Connection>,
}

impl People {
    pub async fn come() -> Self {
        let server = Server::start();
        let root = connect(&server).await;
        let setup = "ALTER ALL DNODES 'tmqMaxTopicNum' '100'; CREATE DATABASE plant VGROUPS 1; CREATE DATABASE gone VGROUPS 1; \
             CREATE STABLE plant.s (ts TIMESTAMP, v INT) TAGS (g INT); CREATE TABLE plant.t (ts TIMESTAMP, v INT); \
             CREATE TABLE plant.c USING plant.s TAGS (1); INSERT INTO plant.t VALUES (now, 1); \
             CREATE USER other PASS 'Secret-1'";
        for sql in setup.split("; ") {
            query(&root, sql).await;
        }
        let mut connections = Vec::new();
        for role in ROLES {
            if role == "root" {
                connections.push(root.clone());
                continue;
            }
            query(&root, &format!("CREATE USER {role} PASS '{PASSWORD}'")).await;
            connections.push(connect_as(&server, role).await);
            let right = match role {
                "reader" | "owner" | "past" => "READ",
                "writer" => "WRITE",
                _ => continue,
            };
            for database in ["plant", "gone"] {
                query(&root, &format!("GRANT {right} ON {database}.* TO {role}")).await;
            }
        }
        for (role, connection) in ROLES.iter().zip(&connections) {
            let maker = if matches!(*role, "owner" | "past") { connection } else { &root };
            let select = "AS SELECT ts, v FROM plant.t";
            query(maker, &format!("CREATE TOPIC z_{role} {select}")).await;
            match *role {
                "owner" => drop(query(maker, &format!("CREATE TOPIC pumps {select}")).await),
                "past" => drop(query(maker, &format!("CREATE TOPIC pasts {select}")).await),
                _ => {}
            }
        }
        query(&root, "GRANT SUBSCRIBE ON pumps TO subscriber").await;
        for database in ["plant", "gone"] {
            query(&root, &format!("REVOKE READ ON {database}.* FROM past")).await;
        }
        Self { server, root, connections }
    }

    pub fn all(&self) -> impl Iterator<Item = (&'static str, &Connection)> {
        ROLES.into_iter().zip(&self.connections)
    }

    /// The one of whom nothing is known.
    pub fn nobody(&self) -> &Connection {
        &self.connections[0]
    }
}
