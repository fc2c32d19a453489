#!/usr/bin/env python3
"""Writes jinja.jsonl: small templates and what Jinja2 makes of them, set up as transformers does it for chat templates.

Needs the package jinja2. Usage: make_jinja_vectors.py > jinja.jsonl
"""
import json

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


V = {"s": "Hello, wörld! ", "e": "", "n": None, "t": True, "f": False, "i": 7, "k": -3, "x": 2.5, "l": [3, 1, 2], "w": ["b", "A", "c", "a"],
     "d": {"b": 1, "a": {"c": [1, None, True, "é\"\n<&'"]}, "items": [1]}, "p": [{"r": "u", "v": 1, "z": {"q": "m"}}, {"r": "a", "v": 2}, {"r": "u", "v": 3}],
     "m": "one two  three\nfour", "tags": "<think>\nwhy\n</think>\n\nso"}

EXPRESSIONS = r"""
1 + 2 * 3 - 4
(1 + 2) * 3
7 // 2 ~ -7 // 2 ~ 7 % -3 ~ -7 % 3
i / 2
6 / 2
2 ** 3 ** 2
-2 ** 2
2 ** -1
1.5e3
1e16
1e15
0.0001
0.00001
123456789.125
1_000
0x1F + 0b11 + 0o17
i * x
1 ~ 2 + 3
'a' ~ 1 ~ none ~ true
'a' + 'b' ~ 'c'
'ab' * 3
[1, 2] + [3]
[0] * 3
(1, 2)
(1,)
()
[1, 'a', none, true, 1.0, {'k': 'v'}]
{'a': 1, 'b': [2]}
'it\'s' ~ "a\"b\\\n\t\x41\u00e9\101"
['it\'s', 'a"b', 'b\'"', 'é\n\x00']
1 < 2 < 3
1 < 3 < 2
1 == 1.0
'a' == 'a'
'a' != 'b'
1 == '1'
none == none
[1, 2] == [1, 2]
{'a': 1} == {'a': 1.0}
'a' < 'b'
i > 6 and i < 8
t or f
e or 'x'
0 or e
s and i
not t
not e
not not i
not i in l
'wör' in s
3 in l
'b' in d
9 not in l
'x' if t else 'y'
'x' if f else 'y'
'x' if f
1 if t else 2 if t else 3
'a' if f else 'b' if f else 'c'
u
u | default('z')
u is defined
n | default('z')
n | default('z', true)
e | default('z', boolean=true)
d.b
d['b']
d.nope
d.a.c[0]
d.a.c[-1]
d.a['c'][1:3]
d['items']
d.items() | list
d.keys() | list
d.values() | list | length
d.get('b')
d.get('q')
d.get('q', 5)
s[0]
s[-2]
s[7:12]
s[::-1]
s[100]
l[::-1]
l[1:]
l[:-1]
l[-2:]
l[::2]
l[5:1]
l[9]
s.strip()
s.upper()
s.lower()
s.title()
s.split(', ')
s.split()
m.split()
m.split(None, 1)
m.rsplit(None, 1)
'  a  b '.split(None, 1)
'  a  b '.rsplit(None, 1)
'a,b,c'.split(',', 1)
'a,b,c'.rsplit(',', 1)
'a,b,c'.split(',')[-1]
m.splitlines()
tags.split('</think>')[-1].lstrip('\n')
tags.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n')
'xxaxx'.strip('x')
'xxaxx'.lstrip('x')
'xxaxx'.rstrip('x')
'abcabc'.strip('cba')
s.startswith('Hell')
s.startswith(('x', 'H'))
s.endswith('! ')
s.startswith('ello', 1)
s.replace('l', 'L')
s.replace('l', 'L', 1)
'abc'.replace('', '-')
'abc'.replace('', '-', 2)
s.find('w')
s.find('zz')
s.count('l')
s.index('w')
'a-b'.partition('-')
'ab'.partition('-')
'a-b-c'.rpartition('-')
'abc'.removeprefix('a')
'abc'.removesuffix('bc')
'12'.isdigit()
'1a'.isdigit()
'ab'.isalpha()
'AB'.isupper()
'ab1'.islower()
' '.isspace()
'ab'.capitalize()
'-'.join(['a', 'b'])
'7'.zfill(3)
'-7'.zfill(4)
'a'.ljust(3) ~ '|'
'a'.rjust(3) ~ '|'
s | trim
' x ' | trim | length
'xax' | trim('x')
s | length
l | length
d | length
u | length
l | join(',')
w | join
p | join('-', attribute='r')
p | map(attribute='v') | list
p | map(attribute='z.q') | list
p | map(attribute='z.q', default='D') | list
w | map('upper') | list
w | map('replace', 'A', 'x') | join
p | selectattr('r', 'equalto', 'u') | list | length
p | selectattr('r', '==', 'u') | map(attribute='v') | list
p | rejectattr('r', 'eq', 'u') | list
p | selectattr('z') | list | length
p | selectattr('z', 'defined') | list | length
p | rejectattr('z', 'defined') | list | length
l | select('odd') | list
l | reject('odd') | list
l | select('gt', 1) | list
l | select('in', [1, 2]) | list
w | select | list
l | first
l | last
w | sort
w | sort(case_sensitive=true)
l | sort(reverse=true)
p | sort(attribute='v', reverse=true) | map(attribute='v') | list
w | unique | list
w | unique(case_sensitive=true) | list
l | reverse | list
'abc' | reverse
l | min
l | max
l | sum
p | sum(attribute='v')
w | max
d | dictsort
{'b': 1, 'A': 2} | dictsort
{'b': 1, 'a': 2} | dictsort(by='value')
{'b': 1, 'a': 2} | items | list
'abc' | list
d | list
l | batch(2) | list
'5' | int
'5.7' | int
' 12 ' | int
'x' | int
'x' | int(3)
2.9 | int
-2.9 | int
true | int
'2.5' | float
'x' | float
x | round
3.5 | round
2.675 | round(2)
2.1 | round(method='ceil')
2.9 | round(0, 'floor')
k | abs
-2.5 | abs
x | string
n | string
'a b' | title
'HELLO wORLD' | capitalize
"they're a-b (c) [d" | title
"they're a-b".title()
'straße' | upper
'a\nb\n\nc' | indent
'a\nb\n\nc' | indent(2, true)
'a\nb\n\nc' | indent(2, first=true, blank=true)
'a\nb' | indent('> ')
'<a href="x">\'&' | escape
'<b>' | safe
'foo bar baz qux' | truncate(9)
'foo bar baz qux' | truncate(9, true)
'foo bar baz qux' | truncate(11, leeway=0)
'foo bar' | replace('o', '0')
'foo bar' | replace('o', '0', 1)
d | tojson
d | tojson(indent=2)
d | tojson(indent=0)
d | tojson(ensure_ascii=true)
d | tojson(sort_keys=true)
d | tojson(separators=(',', ':'))
'\u2028é😀\x7f\x01\b\f' | tojson
'é😀\x7f' | tojson(ensure_ascii=true)
[] | tojson ~ {} | tojson
[[], {}] | tojson(indent=4)
[1.0, 1e16, 1e-5, 0.1, 100000.0, -0.0] | tojson
x | tojson
n | tojson
s | tojson
i is odd
i is even
i is divisibleby 7
i is divisibleby(2)
x is number
t is number
t is boolean
t is integer
i is integer
x is float
s is string
d is mapping
l is sequence
s is sequence
l is iterable
i is iterable
n is none
n is not none
u is undefined
u is not defined
t is true
i is true
f is false
3 is in l
i is eq 7
i is ne 7
i is gt 6
i is lessthan 8
'AB' is upper
'ab' is lower
n is sameas none
s is defined and s is string
range is callable
l is defined and not l is none
range(3) | list
range(1, 4) | list
range(5, 0, -2) | list
range(l | length) | list
dict(a=1, b='x')
dict(d, z=1).z
namespace(a=1).a
'a' 'b'
s|length + 1
-i|abs
(i, k) | max
l | map('string') | join('+')
[l, w] | map('first') | list
[' a ', 'b '] | map('trim') | join
true and not false or true
1 + 1 == 2
'a' in 'abc' and 'd' not in 'abc'
not 'a' == 'b'
l|length == 3
p[0].r ~ p[1]['r']
p[0]['z'].q
p[-1].v
d.a.c|join('/')
s.split(',')[0] + '!'
{'a': {'b': [10, 20]}}.a.b[1]
'%' ~ 5
5 // 0.3
7.5 % 2
-7.5 % 2
1 / 3
10 ** 10 // 1.0
"a" ~ 'b' if true else 'c'
[x * 2, i + k]
'a' < 'b' < 'c'
['b', 'a'] < ['b', 'c']
"\\d"
'\d'
u ~ 'x'
u in l
n in [none]
'' in 'a'
''.join([])
d.a.nope is defined
d.nope is defined
(d.nope or {}).x is defined
l.index(1)
l.count(3)
s is string and (s | length > 3)
m.split('\n')[1]
tags.startswith('<think>') and '</think>' in tags
"true" if true else "false"
true
false | string | lower
none
""".strip().split("\n")

ERRORS = r"""
{{ u.x }}
{{ u + 1 }}
{{ 'a' + 1 }}
{{ d.a + 'x' }}
{{ l.append(1) }}
{{ d.update({}) }}
{{ n.x.y }}
{{ 1 / 0 }}
{{ raise_exception('no') }}
{{ u | tojson }}
{{ i | length }}
{{ s.nope() }}
{{ x() }}
{{ 1 < 'a' }}
{{ 1 in 'a' }}
{% for a in i %}{% endfor %}
{% for a in n %}{% endfor %}
{% set a, b = [1] %}
{% set s.x = 1 %}
{{ 'a' | nope }}
{{ 'a' is nope }}
{{ 'a }}
{% if %}{% endif %}
{% if t %}
{% for x in l %}{% endif %}
{{ 1 +}}
{{ (1 }}
{{ 1 2 }}
{% nope %}
{# open
{% macro f(a) %}{{ a.x }}{% endmacro %}{{ f() }}
{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{% endmacro %}{{ f(b=1) }}
{% break %}
{% set true = 1 %}
{{ strftime_then('%d') }}
""".strip().split("\n")

TEMPLATES = [
    "a\n{% if t %}\nb\n{% endif %}\nc\n", "a\n  {% if t %}  \n  b\n  {% endif %}\nc", "a  {%- if t -%}  b  {%- endif -%}  c",
    "a\n\n{{- 'x' -}}\n\nb", "a {{ 'x' }}\nb", "{{ 'x' }}\n\n", "x\n\n\n", "x\r\ny\r\n{% if t %}\r\nz{% endif %}\r\n", "{# c #}\na{# d #}\nb", "a {#- c -#} b",
    "  {# c #}\n  a", "  {%+ if t %}a{% endif %}", "{% if t +%}\na{% endif %}", "  {{ 'x' }}", "\t{% if t %}a{% endif %}", "a {% if t %}b{% endif %}",
    "{% if t %}\n\nb{% endif %}", "{%- if t %} b{%- endif %}", "\n\n{%- if t %}b{% endif %}", "{% raw %}{{ x }}{% endraw %}", "{% raw %}\n {% if %}\n{% endraw %}\nz",
    "a {%- raw -%} {{ x }} {%- endraw -%} b", "  {% raw %}x{% endraw %}\n", "{% for a in l %}{{ a }}{% endfor %}", "{% for a in l %}\n  {{ a }}\n{% endfor %}\n",
    "{% for a in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}|{% endfor %}",
    "{% for a in l %}{{ loop.previtem }}<{{ a }}>{{ loop.nextitem }}|{% endfor %}", "{% for a in l %}{{ loop.cycle('x', 'y') }}{% endfor %}",
    "{% for a in l if a > 1 %}{{ loop.index }}{{ a }}{{ loop.last }}{% endfor %}", "{% for a in [] %}x{% else %}none{% endfor %}", "{% for a in l if a > 5 %}x{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }};{% endfor %}", "{% for k in d %}{{ k }};{% endfor %}", "{% for c in 'añb' %}{{ c }}.{% endfor %}", "{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }} {% endfor %}",
    "{% for a in l %}{% for b in w %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }}|{% endfor %}",
    "{% for a in range(10) %}{% if a == 2 %}{% continue %}{% endif %}{% if a == 5 %}{% break %}{% endif %}{{ a }}{% endfor %}",
    "{% set a = 1 %}{% for b in l %}{% set a = a + b %}{{ a }} {% endfor %}{{ a }}", "{% set q = 1 %}{% if t %}{% set q = 2 %}{% endif %}{{ q }}",
    "{% set ns = namespace(c=0, found=false) %}{% for b in l %}{% set ns.c = ns.c + b %}{% endfor %}{{ ns.c }}{{ ns.found }}{{ ns.nope is defined }}",
    "{% set a, b = 1, 2 %}{{ b }}{{ a }}", "{% set a %}x{{ i }}\n{% endset %}[{{ a }}]", "{% set a | upper | trim %}  x{{ i }}y\n{% endset %}[{{ a }}]",
    "{% set ns = namespace() %}{% set ns.a %}x{% endset %}{{ ns.a }}", "{% macro f(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(b=5, a=4) }} {{ f() }}",
    "{% macro f(x) -%} {{ x }} {%- endmacro %}{{ f(1) ~ f(2) | upper }}", "{% macro fac(n) %}{% if n <= 1 %}1{% else %}{{ n * (fac(n - 1) | int) }}{% endif %}{% endmacro %}{{ fac(5) }}",
    "{% macro f() %}{{ g }}{% endmacro %}{% set g = 3 %}{{ f() }}", "{% macro f(a) %}{% for b in a %}{{ b }},{% endfor %}{% endmacro %}{% for c in [l, w] %}{{ f(c) }};{% endfor %}",
    "{% macro f() %}{{ caller is defined }}{% endmacro %}{{ f() }}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "{% filter upper %}a{{ i }}b{% endfilter %}",
    "{% filter replace('a', 'x') | upper %}banana{% endfilter %}", "{% if f %}a{% elif i == 7 %}b{% else %}c{% endif %}", "{% if f %}a{% elif f %}b{% else %}c{% endif %}", "{% if u %}a{% endif %}z",
    "{% generation %}a{{ i }}{% endgeneration %}b", "{%- generation -%} a {%- endgeneration -%} b", "{{ '{{' }}", "{{ {'a': {'b': 1}}['a'] }}", "{{ {'a': {'b': 1}} }}", "{{'}}'}}", "{{ '%}' }}{% if '%}' %}a{% endif %}",
    "{% for m in p %}{% if loop.first %}<{% endif %}{{ m.r }}{% if not loop.last %}, {% else %}>{% endif %}{% endfor %}", "{% for m in p[::-1] %}{{ loop.index0 }}{{ m.v }}{% endfor %}", "{% for m in p[1:] %}{{ m['v'] }}{% endfor %}",
    "{% set p2 = p + [{'r': 'x', 'v': 9}] %}{{ p2 | map(attribute='v') | join }}", "{% set loop_p = p[1:] %}{% set sys = p[0]['r'] %}{{ sys }}{{ loop_p | length }}",
    "{% if p[0].r == 'u' and p | length > 2 %}y{% endif %}", "{% if 'a' in d and d.a is mapping %}y{% endif %}", "{% if not (t and f) %}y{% endif %}", "{{ s }}{{ e }}{{ n }}", "{% set x = [] %}{% if x %}a{% else %}b{% endif %}",
    "{% for i in [1, 2] %}{{ i }}{% endfor %}{{ i }}", "{% for a in l %}{% set z = a %}{% endfor %}{{ z is defined }}", "{% if t %}{% for a in l %}{% if a == 1 %}{{ a }}{% endif %}{% endfor %}{% endif %}",
    "{% set f2 = 'x' if f else none %}{{ f2 is none }}", "{{ d.a.c | tojson }}{{ d | tojson | length }}", "{{- 'a' }} {{ 'b' -}} \n c", "{%- set a = 'x' -%}\n\n{{ a }}", "{% set a = {'k': [1, {'z': 'q'}]} %}{{ a.k[1].z }}",
    "{{ ['a', 'b'] | join(', ') if t else '' }}", "{% for k, v in d | items %}{{ k }}{% endfor %}", "{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k }}{{ v }}{% endfor %}", "{% macro a(x) %}<{{ x }}>{% endmacro %}{{ ['p', 'q'] | map('upper') | join }}{{ a('z') }}",
    "{% set ns = namespace(l=[]) %}{% for a in l %}{% set ns.l = ns.l + [a * 2] %}{% endfor %}{{ ns.l }}", "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "x{% if t %}{# c #}{% endif %}y", "{% if t %}a{%- else -%}b{% endif %} c",
    "{% for message in p %}{{'<|' + message['r'] + '|>' + '\\n' + (message['v'] | string) + '\\n'}}{% endfor %}{% if t %}{{ '<|x|>\\n' }}{% endif %}",
]

env = environment()


def emit(template):
    row = {"template": template}
    try:
        row["rendered"] = env.from_string(template).render(**V)
    except Exception as error:
        row["error"] = type(error).__name__
    print(json.dumps(row, ensure_ascii=False))


print(json.dumps(V, ensure_ascii=False))
for template in ["{{ " + e + " }}" for e in EXPRESSIONS] + ERRORS + TEMPLATES:
    emit(template)
