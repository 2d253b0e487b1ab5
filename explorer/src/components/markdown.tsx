// Notes of reports: Markdown as elements, never as markup, so that nothing in a note can become a script.
import { type Token, type Tokens, lexer } from "marked";
import type { ComponentChildren } from "preact";

const SAFE_LINK = /^(https?:|mailto:|#)/i;

export function Markdown({ text }: { text: string }) {
  return <div class="markdown">{blocks(lexer(text))}</div>;
}

/** Whether a link of a note may be followed: other schemes could run something. */
export function isSafe(href: string): boolean {
  return SAFE_LINK.test(href.trim());
}

function blocks(tokens: Token[]): ComponentChildren {
  return tokens.map((token) => block(token));
}

function block(token: Token): ComponentChildren {
  switch (token.type) {
    case "heading": {
      const Heading = token.depth <= 1 ? "h2" : token.depth === 2 ? "h3" : "h4"; // the report itself has the first
      return <Heading>{inline((token as Tokens.Heading).tokens)}</Heading>;
    }
    case "paragraph":
      return <p>{inline((token as Tokens.Paragraph).tokens)}</p>;
    case "text": // an item of a list
      return inline((token as Tokens.Text).tokens ?? [token]);
    case "list": {
      const list = token as Tokens.List;
      const items = list.items.map((item) => <li>{blocks(item.tokens)}</li>);
      return list.ordered ? <ol start={Number(list.start) || 1}>{items}</ol> : <ul>{items}</ul>;
    }
    case "blockquote":
      return <blockquote>{blocks((token as Tokens.Blockquote).tokens)}</blockquote>;
    case "code":
      return (
        <pre tabIndex={0}>
          <code>{token.text}</code>
        </pre>
      );
    case "table":
      return <NoteTable table={token as Tokens.Table} />;
    case "hr":
      return <hr />;
    case "space":
      return null;
    default:
      return <p>{token.raw}</p>; // markup, such as HTML, is shown as it was written
  }
}

function NoteTable({ table }: { table: Tokens.Table }) {
  return (
    <div class="table" tabIndex={0} role="group" aria-label="Table of the note">
      <table>
        <thead>
          <tr>
            {table.header.map((cell) => (
              <th scope="col">{inline(cell.tokens)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row) => (
            <tr>
              {row.map((cell) => (
                <td>{inline(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: Token[] = []): ComponentChildren {
  return tokens.map((token) => {
    const inner = () => inline((token as { tokens?: Token[] }).tokens ?? []);
    switch (token.type) {
      case "strong":
        return <strong>{inner()}</strong>;
      case "em":
        return <em>{inner()}</em>;
      case "del":
        return <del>{inner()}</del>;
      case "codespan":
        return <code>{plain(token.text)}</code>;
      case "br":
        return <br />;
      case "link":
        return isSafe(token.href) ? (
          <a href={token.href} rel="noreferrer">
            {inner()}
          </a>
        ) : (
          inner()
        );
      case "text":
        return (token as Tokens.Text).tokens ? inner() : <bdi>{plain(token.text)}</bdi>;
      case "escape":
        return plain(token.text);
      default:
        return token.raw; // pictures and HTML are shown as they were written
    }
  });
}

const ENTITIES: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };

/** Some versions of the lexer escape texts for HTML, which these are never written into. */
function plain(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#39);/g, (found) => ENTITIES[found] ?? found);
}
