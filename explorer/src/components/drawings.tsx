// Answers as pictures: boxes and maps of classes on an image, marked words of a text, stretches of a sound.
import type { BoxItem, ClassShare, DrawnItem, InputItem, MarkItem, SpanItem } from "../answers";

const SECOND = 8; // styles from here on are dashed or striped
const LONGEST = 24; // letters of a name that is written on an image
const LETTERS = 26; // heights of a letter that an image is wide
const HEIGHT = 40; // of a waveform, in its own units

/** The classes of a style: the same class of things has the same colour and line on every page. */
export function styleClass(style: number): string {
  return `style-${style % SECOND}${style >= SECOND ? " second" : ""}`;
}

interface DrawnPictureProps {
  src: string;
  /** What the image is called. */
  alt: string;
  title?: string;
  /** Of the image itself, in whose pixels boxes are given; the picture may be smaller. */
  width: number;
  height: number;
  item: DrawnItem;
  /** Where its map of classes is, and what that shows. */
  overlay?: string;
  shows: string;
}

/** An image with boxes or a map of classes upon it. */
export function DrawnPicture({ src, alt, title, width, height, item, overlay, shows }: DrawnPictureProps) {
  return (
    <>
      <div class="drawn">
        <img src={src} alt={alt} title={title} width={width} height={height} />
        {overlay && <img class="over" src={overlay} alt={shows} />}
        {item.boxes.length > 0 && <Boxes item={item} width={width} height={height} />}
      </div>
      {item.legend.length > 0 && <Legend legend={item.legend} />}
    </>
  );
}

function Boxes({ item, width, height }: { item: DrawnItem; width: number; height: number }) {
  const letter = width / LETTERS;
  return (
    <svg class="over" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={boxesInWords(item)}>
      {/* Names come after all lines, so that no line runs through one. The best box is drawn last. */}
      {[...item.boxes].reverse().map((box) => (
        <g class={`outline ${styleClass(box.style)}`}>
          <rect class="edge" x={box.left} y={box.top} width={box.width} height={box.height} vector-effect="non-scaling-stroke" />
          <rect x={box.left} y={box.top} width={box.width} height={box.height} vector-effect="non-scaling-stroke" />
        </g>
      ))}
      {[...item.boxes].reverse().map((box) => (
        <BoxName box={box} letter={letter} width={width} height={height} />
      ))}
    </svg>
  );
}

/** Above its box where there is room, else inside; never beyond the right edge. */
function BoxName({ box, letter, width, height }: { box: BoxItem; letter: number; width: number; height: number }) {
  const words = boxWords(box);
  const room = 0.64 * letter * words.length;
  const left = Math.max(0, Math.min(box.left, width - room));
  const above = box.top >= letter * 1.2;
  const base = Math.min(above ? box.top - 0.25 * letter : Math.max(box.top, 0) + letter, height - 0.2 * letter);
  return (
    <text x={left} y={base} font-size={letter} class="on-image">
      {words}
    </text>
  );
}

function boxWords({ name, score }: BoxItem): string {
  const short = name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name;
  return score === null ? short : `${short} ${score.toFixed(2)}`;
}

function boxesInWords(item: DrawnItem): string {
  const count = item.boxes.length + item.more_boxes;
  return `${count.toLocaleString("en")} ${count === 1 ? "box" : "boxes"}: ${item.boxes.map(boxWords).join(", ")}`;
}

function Legend({ legend }: { legend: ClassShare[] }) {
  return (
    <ul class="legend" aria-label="Classes of the map">
      {legend.map((one) => (
        <li>
          <span class={`swatch ${styleClass(one.style)}`} /> <bdi>{one.name}</bdi> {one.words}
        </li>
      ))}
    </ul>
  );
}

/** The words of a text, those that belong together marked with what they are said to be. */
export function MarkedWords({ words, more, marks }: { words: string[]; more: number; marks: MarkItem[] }) {
  const parts = [];
  let place = 0;
  for (const mark of marks) {
    if (mark.first < place || mark.first >= words.length) continue;
    if (mark.first > place) parts.push(<bdi>{words.slice(place, mark.first).join(" ")} </bdi>);
    parts.push(
      <bdi>
        <mark class={styleClass(mark.style)}>
          {words.slice(mark.first, mark.last + 1).join(" ")} <small>{mark.name}</small>
        </mark>
      </bdi>,
      " ",
    );
    place = mark.last + 1;
  }
  if (place < words.length) parts.push(<bdi>{words.slice(place).join(" ")}</bdi>);
  if (more > 0) parts.push(<span class="dim"> … {more.toLocaleString("en")} more words</span>);
  return <p class="marked">{parts}</p>;
}

/** A text in which every place is marked that reads like an answer: answers are kept as words, without their place. */
export function AnsweredText({ text, answers }: { text: string; answers: string[] }) {
  const parts = [];
  let place = 0;
  while (place < text.length) {
    const found = answers
      .map((answer) => ({ at: answer ? text.indexOf(answer, place) : -1, answer }))
      .filter(({ at }) => at >= 0)
      .sort((a, b) => a.at - b.at || b.answer.length - a.answer.length)[0];
    if (!found) break;
    if (found.at > place) parts.push(<bdi>{text.slice(place, found.at)}</bdi>);
    parts.push(
      <bdi>
        <mark class={styleClass(0)}>{found.answer}</mark>
      </bdi>,
    );
    place = found.at + found.answer.length;
  }
  if (place < text.length) parts.push(<bdi>{text.slice(place)}</bdi>);
  return <p class="marked">{parts}</p>;
}

/** A sound as bars of loudness; stretches that an answer names lie behind them. */
export function Waveform({ seen, spans }: { seen: InputItem; spans?: SpanItem[] | null }) {
  const { wave, seconds } = seen;
  const loudest = Math.max(...wave, 0.001);
  const bars = wave.map((bar, place) => {
    const half = Math.max(0.4, ((HEIGHT - 2) / 2) * (bar / loudest));
    return `M${place + 0.15} ${HEIGHT / 2 - half}h.7v${2 * half}h-.7z`;
  });
  const scale = wave.length / Math.max(seconds, 1e-9);
  const said = spans?.map(({ begin, end }) => `${begin.toFixed(2)} to ${end.toFixed(2)} s`).join(", ");
  return (
    <div class="waveform">
      <svg
        viewBox={`0 0 ${Math.max(wave.length, 1)} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Waveform of ${seconds.toFixed(2)} s${spans ? `; marked: ${said || "nothing"}` : ""}`}
      >
        {spans?.map(({ begin, end }) => (
          <rect class="stretch" x={begin * scale} y={0} width={Math.max(0, Math.min(end, seconds) - begin) * scale} height={HEIGHT} />
        ))}
        <path d={bars.join("")} />
      </svg>
      <div class="ends dim">
        <span>0</span>
        <span>{seconds.toFixed(2)} s</span>
      </div>
    </div>
  );
}
