"""A picture as SVG for a page: small (points of a colour are one path), without scripts, every text escaped."""

from __future__ import annotations

from html import escape

from zoolens.crosstrain.report.marks import ROLES, Line, Mark, Picture, Point, Points, Polygon, Text, shortened


def svg(picture: Picture) -> str:
    size = f"{picture.width:.0f} {picture.height:.0f}"
    body = "".join(_drawn(mark) for mark in picture.marks)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{picture.width:.0f}" role="img">'
        f"<title>{escape(shortened(picture.title, 200))}</title>{body}</svg>"
    )


def _drawn(mark: Mark) -> str:
    match mark:
        case Points():
            return (
                f'<path d="{"".join(f"M{_place(point)}h0" for point in mark.at)}" fill="none" stroke-linecap="round" '
                f'stroke-width="{_number(2 * mark.radius)}"{_paint("stroke", mark.colour, mark.opacity)}/>'
            )
        case Line():
            dash = f' stroke-dasharray="{mark.dash[0]:g} {mark.dash[1]:g}"' if mark.dash else ""
            return (
                f'<path d="M{"L".join(map(_place, mark.through))}" fill="none" stroke-linejoin="round" '
                f'stroke-width="{_number(mark.width)}"{dash}{_paint("stroke", mark.colour, mark.opacity)}/>'
            )
        case Polygon():
            crisp = ' shape-rendering="crispEdges"' if len(mark.corners) == 4 and mark.opacity == 1 else ""  # no seams
            path = "L".join(map(_place, mark.corners))
            return f'<path d="M{path}Z"{crisp}{_paint("fill", mark.colour, mark.opacity)}/>'
        case Text():
            return _text(mark)


def _text(mark: Text) -> str:
    x, y = mark.at
    turn = f' transform="rotate(-90 {_number(x)} {_number(y)})"' if mark.turned else ""
    weight = ' font-weight="600"' if mark.bold else ""
    return (
        f'<text x="{_number(x)}" y="{_number(y)}" font-size="{mark.size:g}" text-anchor="{mark.anchor}"{weight}{turn}'
        f"{_paint('fill', mark.colour, 1.0)}>{escape(shortened(mark.text))}</text>"
    )


def _paint(kind: str, colour: str, opacity: float) -> str:
    """Roles as variables of the page, with their light value for an SVG that stands alone."""
    found = f"var(--{colour},{ROLES[colour]})" if colour in ROLES else colour
    clear = f";{kind}-opacity:{opacity:g}" if opacity < 1 else ""
    return f' style="{kind}:{found}{clear}"'


def _place(point: Point) -> str:
    return f"{_number(point[0])} {_number(point[1])}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
