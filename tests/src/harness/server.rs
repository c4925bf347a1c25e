//! Owns a server process under test: how it is set up, started, killed and started again.
//! Never finds a server by chance: it is always the one on the test's own data directory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use gent_client::{Client, ServerUrl};
use gent_protocol::{
    ActorRow, CreateSession, ListActors, OfferCredentials, PageParams, Secret, ServerStatus, Status,
    WorkspaceId,
};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::{Cli, OpenSession, Place, Signal, Stop, gent_binary, send_signal, within};
use crate::scripted::ScriptedServer;

/// How a server is started.
#[derive(Clone)]
pub struct Setup {
    place: Arc<Place>,
    environment: BTreeMap<String, String>,
    failpoints: Vec<String>,
    offers: BTreeMap<String, String>,
    model: String,
    arguments: Vec<String>,
    binary: Option<PathBuf>,
}

/// A server that runs.
pub struct Gent {
    setup: Setup,
    child: Child,
    // Kept open: a server must not meet a closed pipe.
    _stdout: BufReader<ChildStdout>,
    /// Where it listens.
    pub url: ServerUrl,
    /// Its process.
    pub pid: u32,
}

#[derive(Deserialize)]
struct Ready {
    url: String,
    pid: u32,
}

impl Setup {
    /// A server whose clients offer `model` as their Chat Completions provider.
    pub fn new(model: &ScriptedServer) -> Result<Self> {
        Ok(Self::with_url(&format!("{}/v1", model.url()))?.offering_key(model, "OPENAI_API_KEY"))
    }

    /// A server whose clients offer whatever listens there as their Chat Completions provider.
    pub fn with_url(base_url: &str) -> Result<Self> {
        Ok(Self::without_model()?.model("openai/scripted").offering("OPENAI_BASE_URL", base_url))
    }

    /// A server whose clients offer `model` as their Messages provider.
    pub fn with_messages_api(model: &ScriptedServer) -> Result<Self> {
        let setup = Self::without_model()?.model("anthropic/scripted");
        let setup = setup.offering("ANTHROPIC_BASE_URL", &model.url()).offering("ANTHROPIC_API_KEY", "any");
        Ok(setup.offering_key(model, "ANTHROPIC_API_KEY"))
    }

    /// A server whose clients offer nothing.
    pub fn without_model() -> Result<Self> {
        let place = Arc::new(Place::new()?);
        let marker = place.root().display().to_string();
        let environment = BTreeMap::from([
            ("GENT_DATA_DIR".to_owned(), place.data().display().to_string()),
            ("HOME".to_owned(), place.home().display().to_string()),
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("GENT_TEST_MARK".to_owned(), marker),
        ]);
        let (failpoints, offers, arguments) = Default::default();
        let model = "openai/scripted".to_owned();
        Ok(Self { place, environment, failpoints, offers, model, arguments, binary: None })
    }

    fn offering_key(self, model: &ScriptedServer, variable: &str) -> Self {
        match model.key() {
            Some(key) => self.offering(variable, key),
            None => self,
        }
    }

    /// Uses this place instead of a new one.
    pub fn place(mut self, place: Arc<Place>) -> Self {
        self.env("GENT_DATA_DIR", &place.data().display().to_string());
        self.env("HOME", &place.home().display().to_string());
        self.env("GENT_TEST_MARK", &place.root().display().to_string());
        self.place = place;
        self
    }

    fn env(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    /// Sets a variable of the server's environment.
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env(name, value);
        self
    }

    /// Clients offer this variable.
    pub fn offering(mut self, name: &str, value: &str) -> Self {
        self.offers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Clients do not offer this variable.
    pub fn not_offering(mut self, name: &str) -> Self {
        self.offers.remove(name);
        self
    }

    /// Sessions are made with this model.
    pub fn model(mut self, model: &str) -> Self {
        model.clone_into(&mut self.model);
        self
    }

    /// Starts this program instead of the one beside the test.
    pub fn binary(mut self, program: Option<PathBuf>) -> Self {
        self.binary = program;
        self
    }

    /// The program that is started.
    pub fn program(&self) -> Result<PathBuf> {
        self.binary.clone().map_or_else(gent_binary, Ok)
    }

    /// Arms a failpoint, such as `store.in_write:turn.streamEnd=error`.
    pub fn failpoint(mut self, spec: &str) -> Self {
        self.failpoints.push(spec.to_owned());
        self
    }

    /// Lets the server stop there.
    pub fn stop(self, stop: &Stop) -> Self {
        let spec = stop.spec().to_owned();
        self.failpoint(&spec)
    }

    /// Disarms all failpoints.
    pub fn without_failpoints(mut self) -> Self {
        self.failpoints.clear();
        self
    }

    /// Adds arguments of `gent serve`.
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// The place of this server.
    pub fn at(&self) -> &Arc<Place> {
        &self.place
    }

    /// The marker by which processes of this server's tools are found.
    pub fn marker(&self) -> String {
        format!("GENT_TEST_MARK={}", self.place.root().display())
    }

    /// Starts the server and waits for its line.
    pub async fn start(self) -> Result<Gent> {
        #[expect(clippy::disallowed_methods, reason = "the harness starts the program under test")]
        let mut command = Command::new(self.program()?);
        command.arg("serve").args(["--port", "0"]).args(&self.arguments);
        command.env_clear().envs(&self.environment).current_dir(self.place.work());
        if !self.failpoints.is_empty() {
            command.env("GENT_FAILPOINTS", self.failpoints.join(","));
        }
        let log =
            std::fs::File::options().create(true).append(true).open(self.place.root().join("server.log"))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut line = String::new();
        within("the server's first line", async { Ok(stdout.read_line(&mut line).await?) }).await?;
        let said = || std::fs::read_to_string(self.place.root().join("server.log")).unwrap_or_default();
        let ready: Ready =
            serde_json::from_str(&line).with_context(|| format!("it said {line:?} and {:?}", said()))?;
        let url = ready.url.parse()?;
        Ok(Gent { pid: ready.pid, url, child, _stdout: stdout, setup: self })
    }
}

impl Gent {
    /// A server with this model behind it, in a new place.
    pub async fn start(model: &ScriptedServer) -> Result<Self> {
        Setup::new(model)?.start().await
    }

    /// Its place.
    pub fn place(&self) -> &Arc<Place> {
        &self.setup.place
    }

    /// How it was set up; starting that again is a restart.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// A command line in its place, with the variables its clients offer.
    pub fn cli(&self, arguments: &[&str]) -> Cli {
        let cli = Cli::new(&self.setup.place, arguments).program(self.setup.binary.clone());
        self.setup.offers.iter().fold(cli, |cli, (name, value)| cli.env(name, value))
    }

    /// Its token.
    pub fn token(&self) -> Result<Secret> {
        let text = std::fs::read_to_string(gent_client::token_path(&self.setup.place.data()))?;
        Ok(Secret::new(text.trim()))
    }

    /// A connection of the place's workspace, with the credentials offered.
    pub async fn client(&self) -> Result<Client> {
        let client = self.client_of(&self.setup.place.workspace()).await?;
        if !self.setup.offers.is_empty() {
            client.call(self.offer()).await?;
        }
        Ok(client)
    }

    /// What its clients offer.
    pub fn offer(&self) -> OfferCredentials {
        let variables =
            self.setup.offers.iter().map(|(name, value)| (name.clone(), Secret::new(value.clone())));
        OfferCredentials { variables: variables.collect() }
    }

    /// A connection of another workspace, without an offer.
    pub async fn client_of(&self, workspace: &WorkspaceId) -> Result<Client> {
        let client = gent_client::connect(&self.url, &self.token()?).await?;
        Ok(client.with_workspace(workspace))
    }

    /// What a new session of the tests is made of: every tool call is allowed.
    pub fn create(&self) -> Result<CreateSession> {
        let marker = self.setup.place.root().display().to_string();
        Ok(CreateSession {
            cwd: Some(self.setup.place.work().display().to_string()),
            model_id: Some(self.setup.model.parse()?),
            approval: Some(gent_protocol::Approval::Approve),
            env: BTreeMap::from([
                ("GENT_TEST_MARK".to_owned(), marker),
                ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ]),
            ..CreateSession::default()
        })
    }

    /// A new session on a connection of its own, recorded from its first event.
    pub async fn session(&self) -> Result<OpenSession> {
        OpenSession::create(self.client().await?, self.create()?).await
    }

    /// What it says of itself.
    pub async fn status(&self) -> Result<ServerStatus> {
        Ok(self.client_of(&self.setup.place.workspace()).await?.call(Status {}).await?)
    }

    /// Its branch actors, all pages.
    pub async fn actors(&self) -> Result<Vec<ActorRow>> {
        let client = self.client_of(&self.setup.place.workspace()).await?;
        let (mut rows, mut cursor) = (Vec::new(), None);
        loop {
            let page = client.call(ListActors { page: PageParams { limit: None, cursor } }).await?;
            rows.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(rows);
            }
        }
    }

    /// Kills it at once and waits until it is gone.
    pub async fn kill9(&mut self) -> Result<()> {
        self.child.start_kill()?;
        self.wait().await.map(|_code| ())
    }

    /// Asks it to leave.
    pub fn terminate(&self) -> Result<()> {
        send_signal(self.pid, Signal::TERM)
    }

    /// Waits for its end and returns its exit code.
    pub async fn wait(&mut self) -> Result<Option<i32>> {
        within("the end of the server", async { Ok(self.child.wait().await?.code()) }).await
    }

    /// Kills it at once and starts it again on the same data, without failpoints.
    pub async fn restart(mut self) -> Result<Self> {
        self.kill9().await?;
        self.setup.without_failpoints().start().await
    }
}
