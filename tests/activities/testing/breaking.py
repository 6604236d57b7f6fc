"""Breaking a right solution in a way that no test of values can miss."""

import ast


def broken(code: str, entry: str) -> str:
    """Wrap all that a function returns into a tuple, which is a value of another kind."""
    tree = ast.parse(code)
    (function,) = (
        each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == entry
    )
    function.body = [_Wrapper().visit(each) for each in function.body]
    return ast.unparse(ast.fix_missing_locations(tree))


class _Wrapper(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node

    def visit_Return(self, node: ast.Return) -> ast.Return:
        value = node.value or ast.Constant(None)
        return ast.Return(ast.Tuple([ast.Constant("broken"), value], ast.Load()))
