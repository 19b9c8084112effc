"""Rewrite: the walk of passes that replace some nodes of a program and keep all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from operator import is_

from gradtape.ir import Node, Program, rebuilt, topological
from gradtape.ir.origin import LINES, follow


class Rewriting:
    """A program while it is written anew, node by node, in the order of the old one."""

    def __init__(self, program: Program) -> None:
        self._program = program
        # The new node of each old one.
        self.new: dict[Node, Node] = {node: node for node in program.inputs}
        # Inputs and new nodes, in an order in which they can run.
        self._written: dict[Node, None] = dict.fromkeys(program.inputs)

    def over(self, node: Node) -> Node:
        """An old node over the new nodes of its operands."""
        return rebuilt(node, tuple([self.new[parent] for parent in node.inputs]))

    def write(self, old: Node, *made: Node) -> None:
        """Add nodes made for an old one, and all that they read; they get the line of that."""
        found = topological(made, stop=self._written)
        if LINES.following:
            for each in found:
                if each not in self._written:
                    follow(old, each)
        self._written |= dict.fromkeys(found)

    def put(self, old: Node, made: Node) -> None:
        """Put a node in the place of an old one."""
        self.new[old] = made
        written = self._written
        if made not in written:
            for parent in made.inputs:
                if parent not in written:
                    self.write(old, made)
                    return
            written[made] = None
            if LINES.following and made is not old:
                follow(old, made)

    def run(self, rule: RewriteRule) -> Program:
        """Replace each node by what the rule gives for it, or keep it if that is None."""
        for node in self._program.nodes:
            made = rule(node, self)
            self.put(node, self.over(node) if made is None else made)
        return self.finished()

    def finished(self) -> Program:
        """The new program, without nodes that nothing reads; the old one if nothing changed."""
        if all(map(is_, self.new, self.new.values())):
            return self._program
        inputs, outputs = self._program.inputs, [self.new[node] for node in self._program.outputs]
        used, nodes = set(outputs), []
        for node in reversed(self._written):
            if node in used:
                used.update(node.inputs)
                nodes.append(node)
        # The inputs were written first.
        del nodes[len(nodes) - sum(node in used for node in inputs) :]
        return Program(inputs, tuple(nodes[::-1]), tuple(outputs))


# The node in the place of an old one, given the program as far as it is written.
RewriteRule = Callable[[Node, Rewriting], Node | None]


def rewrite(program: Program, rule: RewriteRule) -> Program:
    """The program with nodes replaced by what `rule` gives for them, and all above these rebuilt.

    A new node may read others that the rule has made. Nodes that nothing reads any more are
    dropped. If nothing is replaced, it is the program itself.
    """
    return Rewriting(program).run(rule)


def readers_of(program: Program) -> Counter[Node]:
    """The number of reads of each node, as an operand or as an output."""
    readers = Counter(parent for node in program.nodes for parent in node.inputs)
    readers.update(program.outputs)
    return readers
