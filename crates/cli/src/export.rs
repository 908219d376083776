//! `kubectl floe export`: writes all records and pools, as a backup.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use floe_core::wording::counted;

use crate::{
    args, backup,
    cluster::{Access, Cluster},
    console::Console,
    failure::Failure,
    fetch,
    render::{json, yaml},
};

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    command: &args::Export,
) -> Result<(), Failure> {
    let records = fetch::all(&cluster.records(), None, "records").await;
    let records = records.map_err(|error| cluster.failure(&error, Access::records("list")))?;
    let pools = fetch::all(&cluster.pools(None), None, "pools").await;
    let pools = pools.map_err(|error| cluster.failure(&error, Access::pools("list", None)))?;
    let told = format!(
        "{} and {}",
        counted(records.len(), "record", "records"),
        counted(pools.len(), "pool", "pools")
    );
    let list = backup::list(records, pools);
    let file = command.file.as_ref();
    let Some(file) = file.filter(|it| *it != Path::new("-")) else {
        return console.print(&yaml::text(&list)?);
    };
    let is_json = file.extension().is_some_and(|it| it == "json");
    let text = if is_json {
        json::text(&list)?
    } else {
        yaml::text(&list)?
    };
    write(file, &text)?;
    console.remark(&format!("{told} written to {}", file.display()));
    Ok(())
}

/// Writes the whole file or none of it: an old backup is not lost to a full disk, nor to
/// a machine that stops before the new one is on it.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let written = || -> io::Result<()> {
        let mut new = fs::File::create(&part)?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        fs::rename(&part, file)
    };
    written().map_err(|source| {
        // What is left of it is of no use; if it stays, nothing is lost either.
        let _ = fs::remove_file(&part);
        Failure::Io {
            what: format!("cannot write {}", file.display()),
            source,
        }
    })
}

#[cfg(test)]
mod tests {
    use floe_shell::mock::Server;

    use super::*;
    use crate::{
        console::script,
        fixture::{self, POOLS, RECORDS, pool, record},
    };

    async fn export(server: &Server, file: Option<&Path>) -> Result<(String, String), Failure> {
        let (mut console, out, err) = script::console(None);
        let file = file.map(Path::to_owned);
        let command = args::Export { file };
        run(&fixture::cluster(server), &mut console, &command).await?;
        Ok((out.text(), err.text()))
    }

    #[tokio::test]
    async fn a_backup_can_be_written_anywhere_and_is_always_the_same() {
        let server = Server::default();
        server.put(RECORDS, record("10.0.70.10", "dp_web_shop_", ""));
        server.put(RECORDS, record("10.0.70.9", "sts_db_pg_pg-0", "n1"));
        server.put(POOLS, pool("blue", 4, true));
        let (text, _) = export(&server, None).await.unwrap();
        assert_eq!(backup::read(&text).unwrap().len(), 3);
        let (dash, _) = export(&server, Some(Path::new("-"))).await.unwrap();
        assert_eq!(dash, text, "as import reads it");

        let folder = tempfile::tempdir().unwrap();
        let (yaml, json) = (folder.path().join("a.yaml"), folder.path().join("a.json"));
        let (out, told) = export(&server, Some(&yaml)).await.unwrap();
        assert_eq!(out, "");
        assert!(
            told.starts_with("2 records and 1 pool written to "),
            "{told}"
        );
        assert_eq!(fs::read_to_string(&yaml).unwrap(), text);
        export(&server, Some(&json)).await.unwrap();
        let json = fs::read_to_string(&json).unwrap();
        assert_eq!(backup::read(&json).unwrap(), backup::read(&text).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);

        let nowhere = folder.path().join("missing/a.yaml");
        let failure = export(&server, Some(&nowhere)).await.unwrap_err();
        assert_eq!(failure.reason(), "InputOutput");
    }
}
