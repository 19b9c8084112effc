"""Greedy colouring, as loops over integers: plain Python, and the source of the compiled versions.

A bipartite graph is given from both sides: `starts` and `links` list for each vertex the links it
has, `link_starts` and `vertices` list for each link its vertices. For the columns of a matrix the
vertices are columns and the links are rows, for its rows the other way round. A symmetric graph is
given by `starts`, `neighbours` and `edges`, the number of the edge to each neighbour, the same
from both ends.

Scratch arrays are zero at first. Marks in them are numbers that rise from vertex to vertex, so
no array is ever cleared. Only statements that `compiler.emit.integer_loops` translates may be used
here; int is the only type.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence

_Ints = MutableSequence[int]


def forbid(
    first: int, last: int, vertices: _Ints, mark: int, colours: _Ints, forbidden: _Ints
) -> int:
    """Forbid the colours of vertices number `first` up to `last` of a list."""
    for k in range(first, last):
        colour = colours[vertices[k]]
        if colour >= 0:
            forbidden[colour] = mark
    return 0


def lowest_colour(mark: int, forbidden: _Ints) -> int:
    """The lowest colour that is not forbidden."""
    colour = 0
    while forbidden[colour] == mark:
        colour += 1
    return colour


def colour_apart(
    count: int,
    order: _Ints,
    starts: _Ints,
    links: _Ints,
    link_starts: _Ints,
    vertices: _Ints,
    colours: _Ints,
    forbidden: _Ints,
) -> int:
    """Vertices that share a link get different colours: partial distance-2 colouring.

    Gebremedhin, Manne and Pothen, What color is your Jacobian?, 2005,
    doi:10.1137/S0036144504444711, algorithm 3.1.
    """
    highest = 0
    for place in range(count):
        vertex = order[place]
        mark = vertex + 1
        for i in range(starts[vertex], starts[vertex + 1]):
            link = links[i]
            first = link_starts[link]
            forbid(first, link_starts[link + 1], vertices, mark, colours, forbidden)
        colour = lowest_colour(mark, forbidden)
        colours[vertex] = colour
        if colour >= highest:
            highest = colour + 1
    return highest


def put(vertex: int, bucket: int, heads: _Ints, following: _Ints, preceding: _Ints) -> int:
    """Enter a vertex in the list of a bucket, in front.

    Numbers in the lists are one higher than those of vertices, so that 0 is the end.
    """
    first = heads[bucket]
    following[vertex] = first
    preceding[vertex] = 0
    if first > 0:
        preceding[first - 1] = vertex + 1
    heads[bucket] = vertex + 1
    return bucket


def take(vertex: int, bucket: int, heads: _Ints, following: _Ints, preceding: _Ints) -> int:
    """Take a vertex out of the list of its bucket."""
    before = preceding[vertex]
    after = following[vertex]
    if before > 0:
        following[before - 1] = after
    else:
        heads[bucket] = after
    if after > 0:
        preceding[after - 1] = before
    return bucket


def lower(vertex: int, buckets: _Ints, heads: _Ints, following: _Ints, preceding: _Ints) -> int:
    """Move a vertex to the next lower bucket, and return that."""
    bucket = take(vertex, buckets[vertex], heads, following, preceding) - 1
    buckets[vertex] = bucket
    return put(vertex, bucket, heads, following, preceding)


def order_smallest_last(
    count: int,
    starts: _Ints,
    links: _Ints,
    link_starts: _Ints,
    vertices: _Ints,
    degrees: _Ints,
    heads: _Ints,
    following: _Ints,
    preceding: _Ints,
    order: _Ints,
) -> int:
    """The vertex of lowest degree comes last and is removed, and so on.

    Matula and Beck, 1983, doi:10.1145/2402.322385. `degrees` count every link and neighbour;
    `heads` has room for one more than the highest degree.
    """
    for vertex in range(count):
        put(vertex, degrees[vertex], heads, following, preceding)
    lowest = 0
    for place in range(count):
        while heads[lowest] == 0:
            lowest += 1
        vertex = heads[lowest] - 1
        take(vertex, lowest, heads, following, preceding)
        degrees[vertex] = -1
        order[count - 1 - place] = vertex
        for i in range(starts[vertex], starts[vertex + 1]):
            link = links[i]
            for k in range(link_starts[link], link_starts[link + 1]):
                if degrees[vertices[k]] > 0:
                    degree = lower(vertices[k], degrees, heads, following, preceding)
                    if degree < lowest:
                        lowest = degree
    return 0


def forbid_around(
    vertex: int,
    mark: int,
    starts: _Ints,
    neighbours: _Ints,
    colours: _Ints,
    forbidden: _Ints,
    treated: _Ints,
) -> int:
    """Forbid the colours of the neighbours of `vertex`, once for a mark."""
    if treated[vertex] != mark:
        forbid(starts[vertex], starts[vertex + 1], neighbours, mark, colours, forbidden)
        treated[vertex] = mark
    return 0


def colour_stars(
    count: int,
    order: _Ints,
    starts: _Ints,
    neighbours: _Ints,
    edges: _Ints,
    colours: _Ints,
    forbidden: _Ints,
    first_mark: _Ints,
    first_neighbour: _Ints,
    first_edge: _Ints,
    treated: _Ints,
    star: _Ints,
    hub: _Ints,
) -> int:
    """Neighbours differ, and every path over four vertices has three colours.

    So two colours induce stars. Gebremedhin et al., 2007, doi:10.1137/050639879, algorithm 4.1.
    """
    highest = 0
    stars = 0
    for place in range(count):
        vertex = order[place]
        mark = place + 1
        forbid(starts[vertex], starts[vertex + 1], neighbours, mark, colours, forbidden)
        for i in range(starts[vertex], starts[vertex + 1]):
            near = neighbours[i]
            colour = colours[near]
            if colour >= 0 and first_mark[colour] == mark:
                # Two neighbours of one colour: neither may see this vertex's colour again.
                earlier = first_neighbour[colour]
                forbid_around(earlier, mark, starts, neighbours, colours, forbidden, treated)
                forbid_around(near, mark, starts, neighbours, colours, forbidden, treated)
            elif colour >= 0:
                first_mark[colour] = mark
                first_neighbour[colour] = near
                first_edge[colour] = edges[i]
                for j in range(starts[near], starts[near + 1]):
                    far = neighbours[j]
                    if far != vertex and colours[far] >= 0 and hub[star[edges[j]]] == far + 1:
                        forbidden[colours[far]] = mark
        chosen = lowest_colour(mark, forbidden)
        colours[vertex] = chosen
        if chosen >= highest:
            highest = chosen + 1
        for i in range(starts[vertex], starts[vertex + 1]):
            near = neighbours[i]
            colour = colours[near]
            if colour >= 0:
                # The star that this edge joins, and its hub: by default a star of its own.
                joined = stars
                centre = 0
                if first_neighbour[colour] != near:
                    joined = star[first_edge[colour]]
                    centre = vertex + 1
                for j in range(starts[near], starts[near + 1]):
                    if neighbours[j] != vertex and colours[neighbours[j]] == chosen:
                        joined = star[edges[j]]
                        centre = near + 1
                        break
                star[edges[i]] = joined
                hub[joined] = centre
                stars += 1
    return highest


def root_of(parents: _Ints, edge: int) -> int:
    """The representative of the tree of `edge`, in a forest of disjoint sets."""
    while parents[edge] != edge:
        parents[edge] = parents[parents[edge]]
        edge = parents[edge]
    return edge


def colour_trees(
    count: int,
    order: _Ints,
    starts: _Ints,
    neighbours: _Ints,
    edges: _Ints,
    colours: _Ints,
    forbidden: _Ints,
    first_mark: _Ints,
    first_edge: _Ints,
    parents: _Ints,
    visit_mark: _Ints,
    visit_neighbour: _Ints,
) -> int:
    """Neighbours differ, and every cycle has three colours: two colours induce trees only.

    Gebremedhin, Tarafdar, Manne and Pothen, 2007, doi:10.1137/050639879, algorithm 3.1. `parents`
    numbers the edges at first.
    """
    highest = 0
    for place in range(count):
        vertex = order[place]
        mark = place + 1
        forbid(starts[vertex], starts[vertex + 1], neighbours, mark, colours, forbidden)
        for i in range(starts[vertex], starts[vertex + 1]):
            near = neighbours[i]
            if colours[near] >= 0:
                for j in range(starts[near], starts[near + 1]):
                    far = neighbours[j]
                    colour = colours[far]
                    if far != vertex and colour >= 0 and forbidden[colour] != mark:
                        tree = root_of(parents, edges[j])
                        if visit_mark[tree] != mark:
                            visit_mark[tree] = mark
                            visit_neighbour[tree] = near
                        elif visit_neighbour[tree] != near:
                            # The tree is reached by two neighbours: this colour would close it.
                            forbidden[colour] = mark
        chosen = lowest_colour(mark, forbidden)
        colours[vertex] = chosen
        if chosen >= highest:
            highest = chosen + 1
        for i in range(starts[vertex], starts[vertex + 1]):
            near = neighbours[i]
            colour = colours[near]
            if colour >= 0:
                if first_mark[colour] != mark:
                    first_mark[colour] = mark
                    first_edge[colour] = edges[i]
                parents[root_of(parents, edges[i])] = root_of(parents, first_edge[colour])
                for j in range(starts[near], starts[near + 1]):
                    if neighbours[j] != vertex and colours[neighbours[j]] == chosen:
                        parents[root_of(parents, edges[i])] = root_of(parents, edges[j])
    return highest


def peel_trees(
    count: int,
    edge_groups: _Ints,
    group_starts: _Ints,
    group_edges: _Ints,
    left: _Ints,
    queue: _Ints,
    sequence: _Ints,
    solved_from: _Ints,
) -> int:
    """An order in which each edge is the last unknown one of some group of edges.

    Edge e belongs to groups `edge_groups[2 e]` and `edge_groups[2 e + 1]`; one compressed value is
    the sum over a group. `left` counts the unknown edges of each of `count` groups; `solved_from`
    is -1 at first. Returns the number of edges that could be solved.
    """
    waiting = 0
    for group in range(count):
        if left[group] == 1:
            queue[waiting] = group
            waiting += 1
    solved = 0
    taken = 0
    while taken < waiting:
        group = queue[taken]
        taken += 1
        if left[group] == 1:
            for k in range(group_starts[group], group_starts[group + 1]):
                edge = group_edges[k]
                if solved_from[edge] < 0:
                    solved_from[edge] = group
                    sequence[solved] = edge
                    solved += 1
                    for side in range(2):
                        touched = edge_groups[2 * edge + side]
                        left[touched] = left[touched] - 1
                        if left[touched] == 1:
                            queue[waiting] = touched
                            waiting += 1
    return solved


# Each loop with the functions that it calls, in the order of their calls.
LOOPS: dict[Callable[..., int], tuple[Callable[..., int], ...]] = {
    colour_apart: (forbid, lowest_colour),
    order_smallest_last: (put, take, lower),
    colour_stars: (forbid, lowest_colour, forbid_around),
    colour_trees: (forbid, lowest_colour, root_of),
    peel_trees: (),
}
