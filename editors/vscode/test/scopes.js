// Prints what the TextMate grammar makes of texts: reads a JSON list of texts on standard input and
// writes for each a list of [start, end, scope], offsets from the start of the text.
const fs = require("fs");
const path = require("path");
const oniguruma = require("vscode-oniguruma");
const textmate = require("vscode-textmate");

const grammarFile = path.join(__dirname, "../syntaxes/hlo.tmLanguage.json");

async function main() {
  const wasm = fs.readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm"));
  await oniguruma.loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength));
  const registry = new textmate.Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (sources) => new oniguruma.OnigScanner(sources),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async () =>
      textmate.parseRawGrammar(fs.readFileSync(grammarFile, "utf-8"), grammarFile),
  });
  const grammar = await registry.loadGrammar("source.hlo");
  const texts = JSON.parse(fs.readFileSync(0, "utf-8"));
  const found = texts.map((text) => {
    const tokens = [];
    let stack = textmate.INITIAL;
    let start = 0;
    for (const line of text.split("\n")) {
      const result = grammar.tokenizeLine(line, stack);
      stack = result.ruleStack;
      for (const token of result.tokens) {
        const scope = token.scopes[token.scopes.length - 1];
        tokens.push([start + token.startIndex, start + token.endIndex, scope]);
      }
      start += line.length + 1;
    }
    return tokens;
  });
  process.stdout.write(JSON.stringify(found));
}

main();
