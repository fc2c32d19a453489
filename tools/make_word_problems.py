#!/usr/bin/env python3
"""Writes arithmetic word problems in MetaMathQA's record format: a data set anyone can make, with known answers.

    tools/make_word_problems.py --train 2400 --test 240 --seed 1 --out build/word_problems

writes train.json, test.json (JSON arrays of {query, response, type, original_question}) and dataset_info.json.
A problem is drawn from one of the templates below, one to four steps long; every number is drawn, every answer
computed. Each problem has several phrasings that share one `original_question`; no question, in any phrasing, is in
both files. The same arguments give the same bytes on every machine. Python's standard library is all it needs.
"""

import argparse
import json
import os
import random
import re
import sys
from collections import namedtuple

NAMES = """Ada Ben Carla Dan Elif Finn Grace Hana Ivan Julia Karim Leila Marco Nora Oscar Paula Quinn Rita Sam
Tara Umar Vera Will Yara Zoe""".split()
THINGS = """apples pears stickers marbles shells pencils cards stamps coins buttons cookies beads balloons
flowers stones plums""".split()
GOODS = """notebook puzzle lamp scarf mug kite cap ball brush candle""".split()
CONTAINERS = """box bag basket jar tray""".split()
PLURAL = {"box": "boxes", "brush": "brushes"}

# numbers: "a 2..9" draws, "t = a * b" computes. where: what must hold, else all is drawn again.
# steps: (label, expression, name of the result); the last result is the answer. phrasings: the first one is the
# original question. In texts {A} {B} {C} are people, {x} {y} things, {g} {h} goods, {c} a container, {cs} several.
Template = namedtuple("Template", "numbers where steps phrasings")

ONE_STEP = [
    Template("a 4..60, b 3..39", "a + b < 100", [("{X} now", "a + b", "n")], [
        "{A} has {a} {x} and gets {b} more. How many {x} does {A} have now?",
        "{A} had {a} {x} and then found {b} more {x}. How many {x} are there now?",
        "To {A}'s {a} {x} another {b} {x} are added. How many {x} does {A} have in the end?"]),
    Template("a 10..80, b 3..50", "a - b > 1", [("{X} left", "a - b", "n")], [
        "{A} has {a} {x} and gives {b} of them to {B}. How many {x} does {A} have left?",
        "{B} receives {b} of {A}'s {a} {x}. How many {x} does {A} keep?",
        "Of {a} {x}, {A} hands {b} to {B}. How many {x} remain with {A}?"]),
    Template("a 10..70, b 4..40", "a - b > 1", [("Difference", "a - b", "n")], [
        "{A} collected {a} {x} and {B} collected {b} {x}. How many more {x} did {A} collect than {B}?",
        "{B} collected {b} {x}, while {A} collected {a}. By how many {x} is {A} ahead?",
        "How many {x} more than {B} with {b} {x} does {A} have, who owns {a} {x}?"]),
    Template("a 2..9, b 3..12", "True", [("{X} in all", "a * b", "n")], [
        "There are {a} {cs} with {b} {x} in each. How many {x} are there in all?",
        "Each {c} holds {b} {x}. How many {x} are in {a} {cs}?",
        "{A} fills {a} {cs} and puts {b} {x} into every one. How many {x} does {A} need?"]),
    Template("k 2..9, s 2..10, t = k * s", "True", [("{X} for each friend", "t / k", "n")], [
        "{A} shares {t} {x} equally among {k} friends. How many {x} does each friend get?",
        "{k} friends split {t} {x} of {A} into equal parts. How many {x} does one friend receive?",
        "{A} gives {t} {x} to {k} friends, the same number to each. How many {x} are for each friend?"]),
    Template("k 2..10, s 2..9, t = k * s", "k != s", [("{Cs} needed", "t / k", "n")], [
        "{A} packs {t} {x} with {k} in each {c}. How many {cs} are needed?",
        "One {c} has room for {k} {x}. How many {cs} does {A} need for {t} {x}?",
        "{t} {x} are put into {cs} of {k}. How many {cs} does that make?"]),
    Template("n 2..9, p 2..12", "True", [("Cost", "n * p", "c1")], [
        "One {g} costs ${p}. How many dollars do {n} {gs} cost?",
        "{A} buys {n} {gs} for ${p} each. How many dollars does {A} pay?",
        "The price of a {g} is ${p}. What do {n} of them cost in dollars?"]),
    Template("p 3..45, m 2..10, b = 5 * m", "b - p > 1", [("Change", "b - p", "n")], [
        "{A} buys a {g} for ${p} and pays with ${b}. How many dollars does {A} get back?",
        "A {g} costs ${p}. {A} hands over ${b}. How many dollars is the change?",
        "With ${b} in hand, {A} pays ${p} for a {g}. How many dollars are left?"]),
    Template("v 3..12, h 2..9", "True", [("Miles", "v * h", "n")], [
        "{A} rides {v} miles in an hour. How many miles does {A} ride in {h} hours?",
        "At {v} miles an hour, how many miles does {A} travel in {h} hours?",
        "{A} travels for {h} hours and covers {v} miles every hour. How many miles is that?"]),
    Template("a 5..40, b 2..20", "True", [("Age of {A}", "a + b", "n")], [
        "{B} is {a} years old. {A} is {b} years older than {B}. How old is {A}?",
        "{A} is {b} years older than {B}, who is {a}. What is the age of {A}?",
        "How old is {A}, who was born {b} years before the {a}-year-old {B}?"]),
    Template("a 3..12, b 2..9", "a > b", [("Area", "a * b", "n")], [
        "A garden is {a} meters long and {b} meters wide. What is its area in square meters?",
        "{A}'s garden measures {a} by {b} meters. How many square meters does it have?",
        "How many square meters does a garden of {a} meters by {b} meters cover?"]),
    Template("k 2..6, b 3..15", "k != b", [("{X} of {A}", "k * b", "n")], [
        "{B} has {b} {x}. {A} has {k} times as many. How many {x} does {A} have?",
        "{A} has {k} times as many {x} as {B}, who has {b}. How many {x} does {A} have?",
        "If {B} owns {b} {x} and {A} owns {k} times that number, how many {x} does {A} own?"]),
    Template("s 3..30, t = 2 * s", "True", [("{X} sold", "t / 2", "n")], [
        "{A} had {t} {x} and sold half of them. How many {x} did {A} sell?",
        "Half of {A}'s {t} {x} are sold. How many {x} is that?",
        "How many {x} did {A} sell, if it was half of {t} {x}?"]),
    Template("a 5..60, m 3..40, t = a + m", "t < 100", [("{X} missing", "t - a", "n")], [
        "{A} wants to collect {t} {x} and has {a}. How many {x} are still missing?",
        "{A} has {a} of the {t} {x} of a set. How many {x} does {A} still need?",
        "A set has {t} {x}. {A} owns {a} of them. How many more {x} make the set complete?"]),
]

TWO_STEPS = [
    Template("n 2..8, p 2..9, m 2..20, b = 5 * m", "1 < b - n * p < 50", [
        ("Cost", "n * p", "c1"), ("Change", "b - c1", "n2")], [
        "{A} buys {n} {gs} for ${p} each and pays with ${b}. How many dollars does {A} get back?",
        "{A} pays with ${b} for {n} {gs} that cost ${p} each. How many dollars is the change?",
        "A {g} costs ${p}. {A} has ${b} and buys {n} of them. How many dollars are left?"]),
    Template("k 2..9, s 2..9, b 2..9, t = k * s", "k != s", [
        ("{Cs} filled by {A}", "t / k", "f"), ("{Cs} in all", "f + b", "n")], [
        "{A} packs {t} {x} with {k} in each {c}. {B} brings {b} more {cs}. How many {cs} are there?",
        "{t} {x} are packed by {A} with {k} in each {c}, and {B} adds {b} {cs}. How many {cs} are there in all?",
        "{B} has {b} {cs}. {A} fills more {cs} with {t} {x}, {k} in each {c}. How many {cs} do they have?"]),
    Template("k 2..9, s 2..9, t = k * s, a 2..60, b = t - a", "b > 1", [
        ("{X} together", "a + b", "t2"), ("{X} for each friend", "t2 / k", "n")], [
        "{A} has {a} {x} and {B} has {b}. They share all of them equally among {k} friends. How many {x} does each "
        "friend get?",
        "{A} with {a} {x} and {B} with {b} {x} give everything to {k} friends in equal parts. How many {x} does one "
        "friend receive?",
        "{k} friends split the {a} {x} of {A} and the {b} {x} of {B} equally. How many {x} are for each friend?"]),
    Template("a 4..40, b 2..20", "2 * a + b < 100", [
        ("{X} of {B}", "a + b", "m"), ("{X} together", "a + m", "n")], [
        "{A} has {a} {x}. {B} has {b} more than {A}. How many {x} do they have together?",
        "{B} has {b} {x} more than {A}, who has {a}. How many {x} do {A} and {B} have together?",
        "{A} owns {a} {x} and {B} owns {b} more than that. How many {x} do both own together?"]),
    Template("e 3..12, d 2..9, u 2..30", "e * d - u > 1", [
        ("Eggs collected", "e * d", "m"), ("Eggs left", "m - u", "n")], [
        "{A}'s hens lay {e} eggs a day. After {d} days {A} uses {u} eggs. How many eggs are left?",
        "{A} collects {e} eggs a day for {d} days and bakes with {u} of them. How many eggs remain?",
        "For {d} days {A} gathers {e} eggs each day. Then {u} eggs are sold. How many eggs are left?"]),
    Template("r 3..9, s 3..10, u 4..60", "r * s - u > 1", [
        ("Seats in all", "r * s", "m"), ("Empty seats", "m - u", "n")], [
        "A hall has {r} rows with {s} seats each. {u} seats are taken. How many seats are empty?",
        "{u} people sit in a hall that has {r} rows of {s} seats. How many seats are empty?",
        "In {r} rows of {s} seats, {u} seats are taken. How many seats are still free?"]),
    Template("l 3..30, w 2..19", "l > w", [
        ("Length and width", "l + w", "m"), ("Perimeter", "m * 2", "n")], [
        "A field is {l} meters long and {w} meters wide. What is its perimeter in meters?",
        "How many meters of fence does {A} need around a field of {l} by {w} meters?",
        "{A} walks once around a field that measures {l} meters by {w} meters. How many meters does {A} walk?"]),
    Template("s 2..12, w 2..9, h 5..40", "True", [
        ("Dollars saved", "s * w", "m"), ("Dollars in all", "h + m", "n")], [
        "{A} has ${h} and saves ${s} a week for {w} weeks. How many dollars does {A} have then?",
        "{A} saves ${s} every week. How many dollars does {A} have after {w} weeks, starting with ${h}?",
        "Starting from ${h}, {A} puts ${s} aside each week. How many dollars are there after {w} weeks?"]),
    Template("r 3..12, d 2..9, p 30..120", "p - r * d > 2", [
        ("Pages read", "r * d", "m"), ("Pages left", "p - m", "n")], [
        "A book has {p} pages. {A} reads {r} pages a day for {d} days. How many pages are left?",
        "{A} reads {r} pages a day of a book with {p} pages. How many pages are left after {d} days?",
        "After {d} days with {r} pages a day, how many of the {p} pages of a book must {A} still read?"]),
    Template("a 4..15, k 2..5", "True", [
        ("Age of {B}", "a * k", "m"), ("Ages together", "a + m", "n")], [
        "{A} is {a} years old. {B} is {k} times as old. What is the sum of their ages?",
        "{B} is {k} times as old as {A}, who is {a}. How old are they together?",
        "{A} is {a} and {B} is {k} times that age. What do their ages add up to?"]),
    Template("v 4..12, h 2..8, x1 2..15", "True", [
        ("Miles by bike", "v * h", "m"), ("Miles in all", "m + x1", "n")], [
        "{A} rides a bike at {v} miles an hour for {h} hours and then walks {x1} miles. How many miles is that in all?",
        "After {h} hours on a bike at {v} miles an hour, {A} walks another {x1} miles. How many miles did {A} cover?",
        "{A} walks {x1} miles and rides {h} hours at {v} miles an hour. How many miles does {A} travel in all?"]),
    Template("a 12..50, b 3..20, d 3..20", "a - b > 2 and b != d", [
        ("People after the first leave", "a - b", "m"), ("People now", "m + d", "n")], [
        "A bus has {a} people. {b} people get off and {d} get on. How many people are on the bus now?",
        "{b} of {a} people leave a bus and {d} new ones get on. How many people are on it now?",
        "On a bus with {a} people, {b} get off at a stop where {d} get on. How many people ride on?"]),
    Template("a 4..32", "True", [
        ("{X} on Tuesday", "a * 2", "m"), ("{X} in all", "a + m", "n")], [
        "{A} sold {a} {x} on Monday and twice as many on Tuesday. How many {x} did {A} sell in all?",
        "On Monday {A} sold {a} {x}, on Tuesday twice that number. How many {x} were sold in all?",
        "{A} sells twice as many {x} on Tuesday as on Monday. On Monday it was {a}. How many {x} is that in all?"]),
    Template("k 2..9, s 2..9, e 2..12, t = k * s + e", "k != s", [
        ("{X} to pack", "t - e", "m"), ("{Cs} filled", "m / k", "n")], [
        "{A} has {t} {x}, keeps {e} and packs the others with {k} in each {c}. How many {cs} does {A} fill?",
        "After keeping {e} of {t} {x}, {A} packs the rest with {k} in each {c}. How many {cs} are filled?",
        "{A} keeps {e} of {t} {x}. The others go into {cs} of {k}. How many {cs} is that?"]),
]

THREE_STEPS = [
    Template("n1 2..6, p1 2..9, n2 2..6, p2 2..9", "(n1, p1) != (n2, p2)", [
        ("Cost of the {gs}", "n1 * p1", "c1"), ("Cost of the {hs}", "n2 * p2", "c2"), ("Cost", "c1 + c2", "n")], [
        "{A} buys {n1} {gs} for ${p1} each and {n2} {hs} for ${p2} each. How many dollars does {A} pay?",
        "A {g} costs ${p1} and a {h} ${p2}. How many dollars do {n1} {gs} and {n2} {hs} cost?",
        "What do {n1} {gs} at ${p1} and {n2} {hs} at ${p2} cost together, in dollars?"]),
    Template("w 3..9, r 4..10, s 3..40, k 2..6", "w * r - s > k and (w * r - s) % k == 0", [
        ("Dollars earned", "w * r", "e"), ("Dollars left", "e - s", "m"), ("Dollars for each child", "m / k", "n")], [
        "{A} works {w} hours for ${r} an hour, spends ${s} and gives the rest to {k} children in equal parts. How many "
        "dollars does each child get?",
        "For {w} hours of work at ${r} an hour {A} is paid. After spending ${s}, {A} shares the rest equally among {k} "
        "children. How many dollars does one child get?",
        "{k} children share what {A} has left after earning ${r} an hour for {w} hours and spending ${s}. How many "
        "dollars does each child receive?"]),
    Template("a 5..30, b 3..20, d 2..15", "a + b - d > 2 and 2 * a + b - d < 100", [
        ("{X} of {B}", "a + b", "m"), ("{X} of {C}", "m - d", "l"), ("{X} of {A} and {C}", "a + l", "n")], [
        "{A} has {a} {x}. {B} has {b} more than {A}. {C} has {d} fewer than {B}. How many {x} do {A} and {C} have "
        "together?",
        "{B} has {b} {x} more than {A} and {C} has {d} fewer than {B}. {A} has {a}. How many {x} do {A} and {C} have "
        "together?",
        "{A} owns {a} {x}, {B} owns {b} more than that, and {C} owns {d} fewer than {B}. How many {x} do {A} and {C} "
        "own together?"]),
    Template("r 3..8, s 3..8, d 2..12, p 2..5", "r * s - d > 3", [
        ("Plants in all", "r * s", "m"), ("Plants to sell", "m - d", "l"), ("Dollars earned", "l * p", "n")], [
        "{A} grows {r} rows of {s} plants. {d} plants die and the others are sold for ${p} each. How many dollars does "
        "{A} earn?",
        "Of {r} rows with {s} plants each, {A} loses {d} plants and sells the rest for ${p} each. How many dollars does "
        "{A} earn?",
        "{A} sells plants for ${p} each: {r} rows of {s} plants, without the {d} that died. How many dollars is that?"]),
    Template("l 3..9, w 2..8, p 2..5, f 5..30", "l > w", [
        ("Area", "l * w", "m"), ("Price of the carpet", "m * p", "c1"), ("Price in all", "c1 + f", "n")], [
        "A floor is {l} meters long and {w} meters wide. Carpet costs ${p} per square meter and laying it costs ${f}. "
        "How many dollars is that in all?",
        "{A} covers a floor of {l} by {w} meters with carpet at ${p} per square meter and pays ${f} for the work. How "
        "many dollars does {A} pay?",
        "For a floor of {l} by {w} meters {A} buys carpet at ${p} per square meter. The work costs ${f}. What is the "
        "price in all, in dollars?"]),
    Template("b 2..6, s 5..12, t 2..8, e 2..9", "b * s - t - e > 3", [
        ("Seats in all", "b * s", "m"), ("Seats taken", "m - e", "l"), ("Children", "l - t", "n")], [
        "{b} buses with {s} seats each bring a school to the zoo. {e} seats are empty and {t} seats are taken by "
        "teachers. How many children are there?",
        "A school fills {b} buses of {s} seats but for {e} empty seats. {t} of the people are teachers. How many "
        "children are on the trip?",
        "On a trip with {b} buses of {s} seats, {e} seats stay empty and {t} people are teachers. How many are "
        "children?"]),
    Template("r 3..10, d 2..6, k 2..6, q 3..12, p = r * d + k * q", "True", [
        ("Pages read", "r * d", "m"), ("Pages left", "p - m", "l"), ("Pages a day", "l / k", "n")], [
        "A book has {p} pages. {A} reads {r} pages a day for {d} days and wants to finish in {k} more days. How many "
        "pages a day must {A} read then?",
        "{A} reads {r} pages a day for {d} days of a book with {p} pages. How many pages a day are needed to finish in "
        "{k} more days?",
        "After {d} days with {r} pages a day, {A} has {k} days for the rest of a book with {p} pages. How many pages a "
        "day is that?"]),
    Template("s 4..20, t = 2 * s, b 2..15, k 2..6", "(s + b) % k == 0", [
        ("{X} left", "t / 2", "m"), ("{X} now", "m + b", "l"), ("{X} for each friend", "l / k", "n")], [
        "{A} has {t} {x}, loses half of them, finds {b} more and shares all with {k} friends in equal parts. How many "
        "{x} does each of the friends get?",
        "Half of {A}'s {t} {x} get lost. {A} finds {b} more and gives everything to {k} friends equally. How many {x} "
        "does each friend get?",
        "{A} loses half of {t} {x} and then finds {b} {x}. {k} friends share what {A} has now. How many {x} are for "
        "each friend?"]),
    Template("m1 2..6, v 2..9, h 2..5, d 2..20", "m1 * v * h - d > 5", [
        ("{X} an hour", "m1 * v", "m"), ("{X} made", "m * h", "l"), ("Good {x}", "l - d", "n")], [
        "{m1} machines make {v} {x} an hour each. After {h} hours {d} {x} are broken. How many {x} are good?",
        "Each of {m1} machines makes {v} {x} an hour. In {h} hours, {d} {x} break. How many good {x} are there?",
        "In {h} hours {m1} machines work, and each makes {v} {x} an hour. {d} of the {x} are broken. How many are "
        "good?"]),
]

FOUR_STEPS = [
    Template("n1 2..5, p1 2..9, n2 2..5, p2 2..9, m 4..20, b = 5 * m", "1 < b - n1 * p1 - n2 * p2 < 40", [
        ("Cost of the {gs}", "n1 * p1", "c1"), ("Cost of the {hs}", "n2 * p2", "c2"), ("Cost", "c1 + c2", "t"),
        ("Change", "b - t", "n")], [
        "{A} buys {n1} {gs} for ${p1} each and {n2} {hs} for ${p2} each and pays with ${b}. How many dollars does {A} "
        "get back?",
        "A {g} costs ${p1} and a {h} ${p2}. {A} pays with ${b} for {n1} {gs} and {n2} {hs}. How many dollars is the "
        "change?",
        "With ${b}, {A} buys {n1} {gs} at ${p1} and {n2} {hs} at ${p2}. How many dollars are left?"]),
    Template("a 2..5, p 2..6, b 2..5, q 2..6, k 2..5", "True", [
        ("Cost of the {gs}", "a * p", "c1"), ("Cost of the {hs}", "b * q", "c2"), ("Cost for one child", "c1 + c2", "t"),
        ("Cost", "t * k", "n")], [
        "{k} children each buy {a} {gs} for ${p} each and {b} {hs} for ${q} each. How many dollars do they pay "
        "together?",
        "A {g} costs ${p} and a {h} ${q}. Each of {k} children buys {a} {gs} and {b} {hs}. How many dollars is that "
        "together?",
        "How many dollars do {k} children pay, if each of them buys {a} {gs} at ${p} and {b} {hs} at ${q}?"]),
    Template("a 4..20, b 2..12, d 2..10", "a + b - d > 2", [
        ("{X} of {B}", "a + b", "m"), ("{X} of {C}", "m - d", "l"), ("{X} of {A} and {B}", "a + m", "t"),
        ("{X} together", "t + l", "n")], [
        "{A} has {a} {x}. {B} has {b} more than {A}. {C} has {d} fewer than {B}. How many {x} do all three have "
        "together?",
        "{B} has {b} {x} more than {A} and {C} has {d} fewer than {B}. {A} has {a}. How many {x} do the three have "
        "together?",
        "{A} owns {a} {x}, {B} owns {b} more than that, and {C} owns {d} fewer than {B}. How many {x} do the three own "
        "together?"]),
    Template("h 2..6, e 2..5, d 2..5, u 2..20, k 2..6", "h * e * d - u > 3 and (h * e * d - u) % k == 0", [
        ("Eggs a day", "h * e", "m"), ("Eggs collected", "m * d", "l"), ("Eggs left", "l - u", "t"),
        ("{Cs} filled", "t / k", "n")], [
        "{A} has {h} hens that lay {e} eggs a day each. After {d} days {A} eats {u} eggs and packs the others with {k} "
        "in each {c}. How many {cs} are filled?",
        "Each of {A}'s {h} hens lays {e} eggs a day. Of the eggs of {d} days {u} are eaten and the rest is packed with "
        "{k} in each {c}. How many {cs} is that?",
        "{h} hens lay {e} eggs a day each for {d} days. {A} eats {u} of the eggs and puts the rest into {cs} of {k}. "
        "How many {cs} does {A} fill?"]),
    Template("w 2..6, r 4..9, d 2..5, s 5..40, q 5..30", "w * r * d - s > 5", [
        ("Dollars a day", "w * r", "m"), ("Dollars earned", "m * d", "l"), ("Dollars left", "l - s", "t"),
        ("Dollars in all", "t + q", "n")], [
        "{A} has ${q}. {A} works {w} hours a day for ${r} an hour on {d} days and spends ${s}. How many dollars does "
        "{A} have then?",
        "On {d} days {A} works {w} hours a day at ${r} an hour. {A} had ${q} before and spends ${s}. How many dollars "
        "are there now?",
        "{A} earns ${r} an hour, works {w} hours a day for {d} days, spends ${s} and already had ${q}. How many dollars "
        "does {A} have in all?"]),
]

# Shares of the steps: easy problems teach the form, long ones use it.
LEVELS = [(ONE_STEP, 35), (TWO_STEPS, 35), (THREE_STEPS, 20), (FOUR_STEPS, 10)]


class Draw:
    """Random choices from Random.random() alone, whose sequence Python keeps the same from version to version."""

    def __init__(self, seed):
        self.source = random.Random(seed)

    def below(self, n):
        return int(self.source.random() * n)

    def choose(self, items):
        return items[self.below(len(items))]

    def several(self, items, count):
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in range(count)]

    def shuffle(self, items):
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]


def plural(word):
    return PLURAL.get(word, word + "s")


def capital(text):
    return text[0].upper() + text[1:]


def draw_numbers(template, draw):
    """Values for the names of the template that satisfy its condition."""
    for _ in range(10000):
        values = {}
        for item in template.numbers.split(","):
            if "=" in item:
                name, expression = item.split("=")
                values[name.strip()] = eval(expression, {}, values)  # our own text, above
            else:
                name, bounds = item.split()
                low, high = map(int, bounds.split(".."))
                values[name] = low + draw.below(high - low + 1)
        if eval(template.where, {}, values):
            return values
    raise ValueError("no numbers satisfy: " + template.where)


def draw_words(draw):
    people = draw.several(NAMES, 3)
    thing = draw.choose(THINGS)
    goods = draw.several(GOODS, 2)
    container = draw.choose(CONTAINERS)
    return {
        "A": people[0], "B": people[1], "C": people[2], "x": thing, "X": capital(thing),
        "g": goods[0], "gs": plural(goods[0]), "h": goods[1], "hs": plural(goods[1]),
        "c": container, "cs": plural(container), "Cs": capital(plural(container)),
    }


def solve(template, numbers, words):
    """The response: one line a step, each with its label and its calculation, then the answer twice."""
    known = dict(numbers)
    lines = []
    for label, expression, result in template.steps:
        left, operator, right = expression.split()
        a = known[left] if left in known else int(left)
        b = known[right] if right in known else int(right)
        if operator == "/":
            assert a % b == 0, (expression, known)
        value = {"+": a + b, "-": a - b, "*": a * b, "/": a // b if b else 0}[operator]
        assert value > 0, (expression, known)
        known[result] = value
        lines.append("%s: %d %s %d = %d" % (label.format(**words), a, operator, b, value))
    return "\n".join(lines + ["#### %d" % value, "The answer is: %d" % value])


def render(phrasing, numbers, words):
    # Names of numbers come first: a template's own {h} or {c} is its number, {gs} {x} and so on are words.
    return phrasing.format(**{**words, **numbers})


class Problems:
    """An endless supply of problems, none twice in any phrasing."""

    def __init__(self, seed):
        self.draw = Draw(seed)
        self.seen = set()

    def next(self):
        for _ in range(10000):
            share = self.draw.below(sum(weight for _, weight in LEVELS))
            for templates, weight in LEVELS:
                if share < weight:
                    break
                share -= weight
            template = self.draw.choose(templates)
            numbers, words = draw_numbers(template, self.draw), draw_words(self.draw)
            queries = [render(phrasing, numbers, words) for phrasing in template.phrasings]
            if not self.seen.intersection(queries):
                self.seen.update(queries)
                return queries, solve(template, numbers, words)
        sys.exit("make_word_problems: the templates do not have that many different problems; ask for fewer")


def record(queries, which, response):
    kind = "Synthetic_Original" if which == 0 else "Synthetic_Rephrased"
    return {"query": queries[which], "response": response, "type": kind, "original_question": queries[0]}


def make(train_count, test_count, seed):
    problems = Problems(seed)
    test = []
    while len(test) < test_count:  # one phrasing of each held-out question
        queries, response = problems.next()
        test.append(record(queries, problems.draw.below(len(queries)), response))
    train = []
    while len(train) < train_count:  # one to all phrasings of each question
        queries, response = problems.next()
        chosen = list(range(len(queries)))
        problems.draw.shuffle(chosen)
        for which in sorted(chosen[:1 + problems.draw.below(len(queries))])[:train_count - len(train)]:
            train.append(record(queries, which, response))
    return train, test


def check_templates():
    """Every name in a text is known, every template has numbers, and its steps can be computed."""
    words = draw_words(Draw(0))
    for templates, _ in LEVELS:
        for template in templates:
            numbers = draw_numbers(template, Draw(0))
            for phrasing in template.phrasings:
                used = set(re.findall(r"{(\w+)}", phrasing))
                assert used <= set(words) | set(numbers), phrasing
            solve(template, numbers, words)


def write_json(path, document):
    temporary = path + ".tmp"
    with open(temporary, "w", encoding="utf-8", newline="\n") as file:
        json.dump(document, file, indent=1, ensure_ascii=False)
        file.write("\n")
    os.replace(temporary, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--train", type=int, default=2400, metavar="N", help="records to train on (default 2400)")
    parser.add_argument("--test", type=int, default=240, metavar="N", help="held-out records (default 240)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other problems (default 1)")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the three files")
    options = parser.parse_args()
    if options.train < 1 or options.test < 1:
        parser.error("--train and --test must be at least 1")
    check_templates()
    train, test = make(options.train, options.test, options.seed)
    os.makedirs(options.out, exist_ok=True)
    columns = {"prompt": "query", "response": "response"}
    write_json(os.path.join(options.out, "train.json"), train)
    write_json(os.path.join(options.out, "test.json"), test)
    write_json(os.path.join(options.out, "dataset_info.json"), {
        "word_problems_train": {"file_name": "train.json", "columns": columns},
        "word_problems_test": {"file_name": "test.json", "columns": columns},
    })
    print("%d training and %d held-out records in %s" % (len(train), len(test), options.out))


if __name__ == "__main__":
    main()
