// Starts hlo-lsp for the HLO files of a window.
const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

function command() {
  return vscode.workspace.getConfiguration("hlo").get("server.path") || "hlo-lsp";
}

async function start() {
  const server = { command: command(), args: ["--stdio"], transport: TransportKind.stdio };
  client = new LanguageClient("hlo", "HLO", server, {
    documentSelector: [{ language: "hlo" }],
  });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showErrorMessage(
      `${command()} cannot be started (${error.message}). Install it with: ` +
        "pip install 'hlo-tools[lsp]', or set hlo.server.path."
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running) await running.stop();
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("hlo.restart", restart),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("hlo.server")) return restart();
    })
  );
  await start();
}

module.exports = { activate, deactivate: stop };
